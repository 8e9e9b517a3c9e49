package shell

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The operations of a request.
const (
	opRun   = 'r' // run the code
	opFork  = 'f' // fork a copy that serves the directory given as the code
	opState = 's' // dump the state
	opLoad  = 'l' // take over the state that was written down in the directory given as the code
	opBegin = 'b' // take the token that is the code (loadable only)
	opEnd   = 'q' // run the caller's EXIT trap and end
)

// headSize is the length of a request's fixed head, in bytes.
const headSize = 64

// request is one order to a shell.
type request struct {
	op   byte
	seq  uint64
	code string
	// streams is the number of the pair of output pipes.
	streams uint64
	// caller names the program to the command "primitives".
	caller string
	// stdin says that standard input is the file i<seq>, not /dev/null.
	stdin bool
	// diff asks for a dump of the state at the end of the call.
	diff bool
	// inMemory says that the code is in a file of memory, the last descriptor.
	inMemory bool
	// copied says that a fork is to be a copy with a private view.
	copied bool
	// trap says that the code seems to set an EXIT trap.
	trap bool
	// checkInterrupt says that the caller may have taken our trap on SIGINT away.
	checkInterrupt bool
}

// encode gives the bytes of the request. With inFile, for shells that read lines
// only, the code travels in a file, the fields are not padded, a dash stands for no
// caller, and the head is one line as inLines makes it, with the option l when the
// file has such lines too. Else the head is:
//
//	offset  0  the operation
//	        2  the sequence number, 10 digits
//	       13  the number of bytes of code, 10 digits
//	       24  options: d(iff) i(nput) t(rap) k(eep interrupts) w(ide characters)
//	           c(opy) m(emory holds the code), then a dot
//	       34  the number of the pair of output pipes, 10 digits
func (r *request) encode(inFile bool) []byte {
	var opts []byte
	if r.diff {
		opts = append(opts, 'd')
	}
	if r.stdin {
		opts = append(opts, 'i')
	}
	if r.trap {
		opts = append(opts, 't')
	}
	if r.checkInterrupt {
		opts = append(opts, 'k')
	}
	if r.inMemory {
		opts = append(opts, 'm')
	}
	if r.copied {
		opts = append(opts, 'c')
	}
	if !ascii(r.code) {
		opts = append(opts, 'w')
	}
	opts = append(opts, '.')
	if inFile {
		if len(r.code) <= mostInLines {
			opts = append(opts, 'l')
		}
		head := fmt.Sprintf("%c %d %d %s %d %s", r.op, r.seq, len(r.code), opts, r.streams, cmp.Or(r.caller, "-"))
		return []byte(inLines(head))
	}
	head := fmt.Appendf(make([]byte, 0, headSize+len(r.code)), "%c %010d %010d %-9s %010d %s", r.op, r.seq, len(r.code), opts, r.streams, r.caller)
	for len(head) < headSize {
		head = append(head, ' ')
	}
	if r.inMemory {
		return head
	}
	return append(head, r.code...)
}

// mostInLines is the most code, in bytes, that a shell which reads pipes byte by byte
// reads itself. Beyond that starting a program to read it costs less.
const mostInLines = 2000

// lineSign stands at both ends of a line, so that a shell reads all of it whatever its
// IFS is.
const lineSign = "\x01"

// inLines gives a text as lines between two signs each.
func inLines(text string) string {
	return lineSign + strings.ReplaceAll(text, "\n", lineSign+"\n"+lineSign) + lineSign + "\n"
}

// file gives the content of the file in which the code travels.
func (r *request) file() string {
	if len(r.code) <= mostInLines {
		return inLines(r.code)
	}
	return r.code
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// reply is what a shell says, one line each:
//
//	TOKEN KIND SEQ STATUS PID .
//
// For kind k (a signal came to the root) the name of the signal stands in the
// place of the sequence number.
//
// Behind the dot the loadable tells what the shell has cost since it began: the
// processor time in microseconds, the largest resident size in KiB, and how often it
// has forked.
type reply struct {
	cost   *cost
	kind   byte
	seq    uint64
	status int
	pid    int
	signal string
}

// The kinds of replies.
const (
	sayDone   = 'd'
	sayHello  = 'h'
	sayState  = 's'
	sayCarry  = 'x' // the shell ends, and has written its state down
	saySignal = 'k'
)

// maxReply bounds a reply's line, in bytes.
const maxReply = 256

// parseReply reads one line. It reports false for whatever is not a reply of
// the kernel with this token.
func parseReply(line, token []byte) (reply, bool) {
	rest, ok := bytes.CutPrefix(line, token)
	if !ok {
		return reply{}, false
	}
	f := bytes.Fields(rest)
	if len(f) != 5 && len(f) != 8 || len(f[0]) != 1 || string(f[4]) != "." || rest[0] != ' ' {
		return reply{}, false
	}
	r := reply{kind: f[0][0]}
	var err error
	switch r.kind {
	case saySignal:
		r.signal = string(f[1])
	case sayDone, sayHello, sayState, sayCarry:
		if r.seq, err = strconv.ParseUint(string(f[1]), 10, 64); err != nil {
			return reply{}, false
		}
	default:
		return reply{}, false
	}
	if r.status, err = strconv.Atoi(string(f[2])); err != nil || r.status < 0 || r.status > 255 {
		return reply{}, false
	}
	if r.pid, err = strconv.Atoi(string(f[3])); err != nil || r.pid <= 0 {
		return reply{}, false
	}
	if len(f) == 8 {
		if r.cost, ok = parseCost(f[5:]); !ok {
			return reply{}, false
		}
	}
	return r, true
}

// cost is what a shell and the children that it has waited for have used since it
// began.
type cost struct {
	cpu      time.Duration
	resident int64 // bytes, the most at once
	forks    uint64
}

func parseCost(f [][]byte) (*cost, bool) {
	var n [3]uint64
	for i := range n {
		var err error
		if n[i], err = strconv.ParseUint(string(f[i]), 10, 53); err != nil {
			return nil, false
		}
	}
	return &cost{cpu: time.Duration(n[0]) * time.Microsecond, resident: int64(n[1]) << 10, forks: n[2]}, true
}
