package python

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
)

//go:embed analysis/analysis.py
var analysisProgram string

// Analysis is what the analysis of a source found about the function in it.
type Analysis struct {
	// Entry is the name of the function's def.
	Entry string `json:"entry"`
	// Signature is the signature as written: "(days: int = 7) -> list".
	Signature string `json:"signature"`
	Doc       string `json:"doc"`
	Async     bool   `json:"async"`
	// Needs lists the stored functions that the source calls.
	Needs []string `json:"needs"`
	// If the source has no function that can be stored, Fault says why, and Advice says
	// what to do.
	Fault  string `json:"fault"`
	Advice string `json:"advice"`
}

// AnalysisProgram returns the program and the standard input that analyse a source. They find
// the def with the given name; if there is none, or the name is empty, the only public
// def. The source is parsed, not run, so the program must run in the version of Python
// that the function is for.
func AnalysisProgram(source, name string) (code, stdin string) {
	request, _ := json.Marshal(map[string]string{"source": source, "name": name}) // strings always encode
	return analysisProgram, string(request)
}

// ReadAnalysis decodes the result of that program.
func ReadAnalysis(result json.RawMessage) (Analysis, error) {
	var j Analysis
	if err := json.Unmarshal(result, &j); err != nil {
		return j, fmt.Errorf("read what was found in a source: %w", err)
	}
	if j.Entry == "" && j.Fault == "" {
		return j, errors.New("read what was found in a source: neither a function nor a fault")
	}
	return j, nil
}
