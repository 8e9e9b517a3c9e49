package python

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
)

//go:embed judge/judge.py
var judge string

// Judgment is what a source says of the function in it.
type Judgment struct {
	// Entry is the name of its def.
	Entry string `json:"entry"`
	// Signature is as written: "(days: int = 7) -> list".
	Signature string `json:"signature"`
	Doc       string `json:"doc"`
	Async     bool   `json:"async"`
	// Needs lists the stored functions that the source calls.
	Needs []string `json:"needs"`
	// Fault says, where there is no function to be stored, why not, and Advice what to
	// do.
	Fault  string `json:"fault"`
	Advice string `json:"advice"`
}

// Judging gives the program and the standard input that find the function in a
// source: the def of that name, or without a name, or where none has it, the only
// public one. Nothing of the source is run. The program is for the Python that the
// function is to run in.
func Judging(source, name string) (code, stdin string) {
	request, _ := json.Marshal(map[string]string{"source": source, "name": name}) // strings always encode
	return judge, string(request)
}

// ReadJudgment reads the result of the program.
func ReadJudgment(result json.RawMessage) (Judgment, error) {
	var j Judgment
	if err := json.Unmarshal(result, &j); err != nil {
		return j, fmt.Errorf("read what was found in a source: %w", err)
	}
	if j.Entry == "" && j.Fault == "" {
		return j, errors.New("read what was found in a source: neither a function nor a fault")
	}
	return j, nil
}
