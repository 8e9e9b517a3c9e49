package venv

import (
	"slices"
	"strconv"
	"strings"
)

// numbers parses the version of a final release, such as 3.11.7.
func numbers(version string) ([]int, bool) {
	var out []int
	for part := range strings.SplitSeq(strings.TrimSpace(version), ".") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}

// operators has longer ones before their prefixes.
var operators = []string{"===", "~=", "==", "!=", "<=", ">=", "<", ">"}

// satisfies reports whether a version fits a requires-python, by the rules of PEP 440 for final
// releases. A clause that it does not understand does not fit; uv is then asked instead.
func satisfies(version []int, requires string) bool {
	for clause := range strings.SplitSeq(requires, ",") {
		if clause = strings.TrimSpace(clause); clause != "" && !fits(version, clause) {
			return false
		}
	}
	return true
}

func fits(version []int, clause string) bool {
	for _, op := range operators {
		text, ok := strings.CutPrefix(clause, op)
		if !ok {
			continue
		}
		text, any := strings.CutSuffix(strings.TrimSpace(text), ".*")
		bound, ok := numbers(text)
		if !ok || any && op != "==" && op != "!=" {
			return false
		}
		order := compare(version, bound)
		if any {
			order = compare(version[:min(len(version), len(bound))], bound)
		}
		switch op {
		case "==", "===":
			return order == 0
		case "!=":
			return order != 0
		case "<=":
			return order <= 0
		case ">=":
			return order >= 0
		case "<":
			return order < 0
		case ">":
			return order > 0
		case "~=":
			return len(bound) > 1 && order >= 0 &&
				compare(version[:min(len(version), len(bound)-1)], bound[:len(bound)-1]) == 0
		}
	}
	return false
}

// compare compares two versions; missing numbers count as zero.
func compare(a, b []int) int {
	n := max(len(a), len(b))
	pad := func(v []int) []int { return append(slices.Clone(v), make([]int, n-len(v))...) }
	return slices.Compare(pad(a), pad(b))
}
