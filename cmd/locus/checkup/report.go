package checkup

import "encoding/json"

// Check is one thing that was looked at.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Required says that no node can run without it.
	Required bool   `json:"required"`
	Detail   string `json:"detail"`
	// Advice says what to do when it is not OK.
	Advice string `json:"advice"`
}

// Report is a list of checks.
type Report struct{ Checks []Check }

// Add appends checks.
func (r *Report) Add(checks ...Check) { r.Checks = append(r.Checks, checks...) }

// OK says that nothing required is missing.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.Required && !c.OK {
			return false
		}
	}
	return true
}

// MarshalJSON gives {"ok": ..., "checks": [...]}.
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
