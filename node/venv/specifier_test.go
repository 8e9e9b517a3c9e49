package venv

import "testing"

func TestSatisfies(t *testing.T) {
	version, _ := numbers("3.11.7")
	for requires, want := range map[string]bool{
		"": true, ">=3.8": true, ">= 3.11.7": true, ">=3.11.8": false, ">=3.8,<3.12": true, ">=3.8, <3.11": false,
		"==3.11.*": true, "==3.9.*": false, "==3.11": false, "==3.11.7": true, "===3.11.7": true, "!=3.11.*": false, "!=3.11.6": true,
		"~=3.8": true, "~=3.11.2": true, "~=3.10.2": false, "~=4.0": false, "<4": true, ">3": true, ">3.11.7": false,
		"<=3.11": false, "<=3.11.7": true, "^3.9": false, ">=three": false, "3.11": false, ">=3.*": false, "~=3": false, ",": true,
	} {
		if got := satisfies(version, requires); got != want {
			t.Errorf("3.11.7 satisfies %q: %v", requires, got)
		}
	}
}
