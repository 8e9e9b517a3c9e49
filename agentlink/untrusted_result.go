package agentlink

import (
	"cmp"
	"slices"
	"strings"

	"github.com/locusrun/locus/surfaces"
)

// machineCodes are the result codes that a machine may use.
var machineCodes = []surfaces.Code{
	surfaces.CodeTimeout, surfaces.CodeSegfault, surfaces.CodeOutOfMemory, surfaces.CodeKilled, surfaces.CodeStopped, surfaces.CodeException,
	surfaces.CodeConsentDenied, surfaces.CodeConsentTimeout, surfaces.CodeOutcomeUnknown, surfaces.CodeUnsupportedLanguage,
	surfaces.CodeNoCapacity, surfaces.CodeInvalidArgument, surfaces.CodeInternal,
}

// sanitize restricts a machine's result to what a machine can know: how its program ended
// and what it returned. Everything else is set by this node.
func (f *hubCall) sanitize(res *surfaces.Result) {
	p := f.partial()
	switch {
	case res.Code == nil && res.Error == nil && res.Status == surfaces.StatusDone:
		res.ErrorType = nil
	case res.Code != nil && res.Error != nil && slices.Contains(machineCodes, *res.Code):
		res.Fail(*res.Code, *res.Error)
	default:
		*res = surfaces.Failed(p, surfaces.CodeOutcomeUnknown, "the machine's result is invalid; the call may have run there")
	}
	if kept := acceptableFiles(res.Files); len(kept) < len(res.Files) {
		res.Notice = append(res.Notice, surfaces.Notice{Kind: "files", Text: "not taken from the machine: " + surfaces.Count(len(res.Files)-len(kept), "file", "files") + ", too many, too large, or with names that do not mean the same everywhere"})
		res.Files = kept
	}
	res.CallID, res.Node, res.Attempts, res.DurationMS = p.CallID, p.Node, cmp.Or(p.Attempts, 1), p.DurationMS
	res.Stdout, res.Stderr, res.Truncated = "", "", nil // the output is in the record
	res.SessionCreated, res.StateLost, res.StateDiff, res.Fix, res.RetryAfterS = false, surfaces.StateLost{}, nil, nil, nil
	res.Language, res.StateMode, res.SessionID, res.SessionName, res.VenvID, res.Surface, res.Machine = nil, nil, nil, nil, nil, nil, nil
	p.At.Into(res)
}

// acceptableFiles returns the files that a machine may send back, with digests computed
// here.
func acceptableFiles(files []surfaces.File) []surfaces.File {
	var kept []surfaces.File
	total := 0
	for _, f := range files {
		inside, ok := strings.CutPrefix(f.Name, surfaces.OutFolder+"/")
		if total += len(f.Data); !ok || surfaces.CheckFileName(inside) != "" || len(kept) == surfaces.MaxFiles || total > surfaces.MaxFilesBytes {
			continue
		}
		kept = append(kept, surfaces.NewFile(f.Name, f.Data))
	}
	return kept
}
