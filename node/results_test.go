package node_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/locusrun/locus/surfaces"
)

// value checks that a call succeeded with a result.
func value(t testing.TB, res surfaces.Result, want string) {
	t.Helper()
	if res.Error != nil {
		t.Fatalf("failed: %s\n%s%s", *res.Error, trace(res), res.Stderr)
	}
	if got := string(res.Result); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

func ok(t testing.TB, res surfaces.Result) surfaces.Result {
	t.Helper()
	if res.Error != nil {
		t.Fatalf("failed: %s\n%s%s", *res.Error, trace(res), res.Stderr)
	}
	return res
}

// show gives a result for people, without what is empty.
func show(res surfaces.Result) string {
	b, err := json.Marshal(res)
	if err != nil {
		return fmt.Sprintf("%+v", res)
	}
	var fields map[string]any
	if json.Unmarshal(b, &fields) != nil {
		return string(b)
	}
	for k, v := range fields {
		if v == nil || v == "" || v == false {
			delete(fields, k)
		}
	}
	if b, err = json.Marshal(fields); err != nil {
		return fmt.Sprintf("%+v", res)
	}
	return string(b)
}

func trace(res surfaces.Result) string {
	if res.Exception == nil {
		return ""
	}
	return res.Exception.Traceback
}

// code checks that a call ended with a code.
func code(t testing.TB, res surfaces.Result, want surfaces.Code) surfaces.Result {
	t.Helper()
	if res.Code == nil || *res.Code != want {
		t.Fatalf("want %s, got %s", want, show(res))
	}
	return res
}

func stdout(t testing.TB, res surfaces.Result, want string) {
	t.Helper()
	ok(t, res)
	if res.Stdout != want {
		t.Fatalf("stdout %.300q, want %.300q", res.Stdout, want)
	}
}
