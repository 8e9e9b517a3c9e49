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
	opFork  = 'f' // fork a copy; the code is its control directory
	opState = 's' // dump the state
	opLoad  = 'l' // load the state that another shell saved in the directory that is the code
	opBegin = 'b' // use the token that is the code (loadable only)
	opEnd   = 'q' // run the caller's EXIT trap and exit
)

// headSize is the length of a request's fixed head, in bytes.
const headSize = 64

// request is one request to a shell.
type request struct {
	op   byte
	seq  uint64
	code string
	// streams is the number of the pair of output pipes.
	streams uint64
	// caller names the program to the command "primitives".
	caller string
	// stdin is set if standard input is the file i<seq> and not /dev/null.
	stdin bool
	// diff requests a dump of the state at the end of the call.
	diff bool
	// inMemory is set if the code is in a file in memory, the last descriptor.
	inMemory bool
	// copied is set if a fork is to be a Copy, with a private view of the disk.
	copied bool
	// preloaded is set if the preloaded library is to isolate a fork.
	preloaded bool
	// trap is set if the code seems to set an EXIT trap.
	trap bool
	// checkInterrupt is set if the caller may have removed our trap on SIGINT.
	checkInterrupt bool
}

// encode returns the bytes of the request. With inFile, for shells that can read only
// lines, the code is in a file, the fields are not padded, a dash means no caller, and the
// head is one line as made by inLines; the option l means that the file has such lines
// too. Otherwise the head is:
//
//	offset  0  the operation
//	        2  the sequence number, 10 digits
//	       13  the number of bytes of code, 10 digits
//	       24  options: d(iff) i(nput) t(rap) k(eep interrupts) w(ide characters)
//	           c(opy) p(reloaded library isolates) m(emory has the code), then a dot
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
	if r.preloaded {
		opts = append(opts, 'p')
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

// mostInLines is the most code, in bytes, that a shell reads itself, byte by byte. For
// more code, starting a program that reads it is cheaper.
const mostInLines = 2000

// lineSign is put at both ends of a line, so that a shell reads all of it with any IFS.
const lineSign = "\x01"

// inLines returns a text as lines with a lineSign at both ends of each.
func inLines(text string) string {
	return lineSign + strings.ReplaceAll(text, "\n", lineSign+"\n"+lineSign) + lineSign + "\n"
}

// file returns the content of the file that has the code.
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

// reply is one line from a shell:
//
//	TOKEN KIND SEQ STATUS PID .
//
// For kind k (the root received a signal) the name of the signal replaces the sequence
// number.
//
// After the dot the loadable adds the shell's resource usage since its start: the CPU time
// in microseconds, the peak resident size in KiB, and the number of forks.
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
	replyDone    = 'd'
	replyHello   = 'h'
	replyState   = 's'
	replyExiting = 'x' // the shell exits and has saved its state
	replySignal  = 'k'
)

// noLibrary is the status of the hello of a copy whose shell has not reached the preloaded
// library. It is no errno.
const noLibrary = 255

// maxReply bounds a reply's line, in bytes.
const maxReply = 256

// parseReply parses one line. It returns false for a line that is not a reply with this
// token.
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
	case replySignal:
		r.signal = string(f[1])
	case replyDone, replyHello, replyState, replyExiting:
		if r.seq, err = strconv.ParseUint(string(f[1]), 10, 64); err != nil {
			return reply{}, false
		}
	default:
		return reply{}, false
	}
	status, err := strconv.ParseInt(string(f[2]), 10, 64)
	if err != nil {
		return reply{}, false
	}
	// In zsh and dash a status may be longer than the byte that a parent is told.
	r.status = int(status & 0xff)
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

// cost is the resource usage of a shell, with the children that it has reaped, since its
// start.
type cost struct {
	cpu      time.Duration
	resident int64 // peak, in bytes
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
