package surfaces

import "strings"

// maxNearWord bounds the words that are compared, in bytes, so that a hostile
// argument cannot make a refusal expensive.
const maxNearWord = 100

// nearest returns the one candidate that word is most likely a misspelling of. It returns
// none if no candidate is close or several are equally close.
func nearest(word string, candidates []string) (string, bool) {
	if word == "" || len(word) > maxNearWord {
		return "", false
	}
	plain := fold(word)
	best, ties := "", 0
	least := maxEdits(plain) + 1
	for _, c := range candidates {
		if len(c) > maxNearWord {
			continue
		}
		switch d := distance([]rune(plain), []rune(fold(c)), least); {
		case d < least:
			best, least, ties = c, d, 1
		case d == least && d <= maxEdits(plain) && c != best:
			ties++
		}
	}
	return best, ties == 1
}

// nearestName is nearest for names that may be numbered: "run 1" is not a misspelling of
// "run 2".
func nearestName(name string, candidates []string) (string, bool) {
	best, ok := nearest(name, candidates)
	if !ok || (digits(best) != digits(name) && withoutDigits(best) == withoutDigits(name)) {
		return "", false
	}
	return best, true
}

// maxEdits is the largest edit distance at which a word still counts as close.
func maxEdits(word string) int {
	switch n := len([]rune(word)); {
	case n < 3:
		return 0
	case n < 6:
		return 1
	case n < 10:
		return 2
	default:
		return 3
	}
}

// fold makes words that differ only in case or in separators equal.
func fold(word string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '.' {
			return '_'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(word)))
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, s)
}

func withoutDigits(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, fold(s))
}

// EditDistance is the edit distance of two words: insertions, deletions, substitutions and swaps of
// neighbours. It takes time proportional to the product of their lengths.
func EditDistance(a, b string) int { return distance([]rune(a), []rune(b), max(len(a), len(b))) }

// distance is the optimal string alignment distance of a and b. Above bound it returns
// bound + 1.
func distance(a, b []rune, bound int) int {
	if len(a)-len(b) > bound || len(b)-len(a) > bound {
		return bound + 1
	}
	before := make([]int, len(b)+1)
	last := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], bound+1)
}

// argumentAliases maps the names that similar tools use to ours.
var argumentAliases = map[string]string{
	"lang": "language", "interpreter": "language",
	"source": "code", "script": "code", "command": "code", "cmd": "code", "program": "code",
	"mode": "state_mode", "state": "state_mode",
	"session": "session_name", "name": "session_name", "id": "session_id",
	"venv": "venv_id", "timeout": "timeout_s", "timeout_seconds": "timeout_s",
	"place": "surface", "host": "machine", "reason": "thought", "input": "stdin",
	"async": "background", "idempotency": "idempotency_key",
	"tools": "primitives", "max_primitives": "primitives_limit",
}

// valueAliases maps, per argument, the values that similar tools use to ours.
var valueAliases = map[string]map[string]string{
	"language": {
		"py": "python", "python3": "python", "ipython": "python",
		"pwsh": "powershell", "ps1": "powershell", "posix": "sh",
	},
	"state_mode": {
		"persistent": "stateful", "session": "stateful", "ro": "read_only",
		"readonly": "read_only", "none": "stateless",
	},
	"surface": {"localhost": "local", "vm": "assistant_vm", "laptop": "user_machine"},
	"on_loss": {"never": "report", "fail": "report"},
}

// nearestValue returns the value in list that was most likely meant.
func nearestValue(argument, value string, list []string) (string, bool) {
	if alias, ok := valueAliases[argument][fold(value)]; ok {
		for _, v := range list {
			if v == alias {
				return v, true
			}
		}
	}
	return nearest(value, list)
}
