package checkup

import "encoding/json"

// Check is the result of one check.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Required says that no node can run if it fails.
	Required bool   `json:"required"`
	Detail   string `json:"detail"`
	// Advice says what to do if it is not OK.
	Advice string `json:"advice"`
}

// Report is a list of checks.
type Report struct{ Checks []Check }

// Add appends checks.
func (r *Report) Add(checks ...Check) { r.Checks = append(r.Checks, checks...) }

// OK reports whether all required checks passed.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.Required && !c.OK {
			return false
		}
	}
	return true
}

// MarshalJSON encodes {"ok": ..., "checks": [...]}.
func (r Report) MarshalJSON() ([]byte, error) {
	checks := r.Checks
	if checks == nil {
		checks = []Check{}
	}
	return json.Marshal(struct {
		OK     bool    `json:"ok"`
		Checks []Check `json:"checks"`
	}{r.OK(), checks})
}
