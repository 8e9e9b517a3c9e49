package venv

import (
	"slices"
	"strconv"
	"strings"
)

// numbers reads the numbers of a final release, such as 3.11.7.
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

// operators in the order in which they are to be looked for.
var operators = []string{"===", "~=", "==", "!=", "<=", ">=", "<", ">"}

// satisfies tells whether a version fits a requires-python, as PEP 440 has it for
// final releases. What it does not understand does not fit: uv is asked then.
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

// compare orders two releases; a missing number is a zero.
func compare(a, b []int) int {
	n := max(len(a), len(b))
	pad := func(v []int) []int { return append(slices.Clone(v), make([]int, n-len(v))...) }
	return slices.Compare(pad(a), pad(b))
}
