package gateway

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/locusrun/locus/surfaces"
)

// read reads the whole body. Its bytes count against the budget of all bodies until release
// is called.
func (x *exchange) read() (body []byte, release func(), err error) {
	limit := x.g.cfg.MaxBody
	if x.r.ContentLength > limit {
		return nil, nil, tooLarge(fmt.Sprintf("the body has %d bytes", x.r.ContentLength), limit)
	}
	if err := x.contentType(); err != nil {
		return nil, nil, err
	}
	h := bodyReader{budget: &x.g.bodies, from: http.MaxBytesReader(x.out.w, x.r.Body, limit)}
	body, err = h.all(x.r.ContentLength)
	if err != nil {
		h.release()
		return nil, nil, x.unreadable(err, limit)
	}
	// Reading is over: an expired deadline would look like a client that disconnected.
	_ = x.out.ctl.SetReadDeadline(time.Time{})
	return body, h.release, nil
}

// expectBody sets the deadline for the body. It comes before all checks, because the server
// also reads the rest of a body after a refusal. Test writers may not support deadlines.
func (x *exchange) expectBody() {
	if x.r.ContentLength != 0 {
		_ = x.out.ctl.SetReadDeadline(time.Now().Add(x.g.cfg.BodyTimeout))
	}
}

// drainTimes bounds how much of a refused body is read, in multiples of MaxBody.
const drainTimes = 4

// drain reads the rest of a refused request's body, within BodyTimeout. Many clients read
// the answer only after they have sent everything, and would see a broken connection
// instead. A client that sent Expect: 100-continue has not sent its body.
func (x *exchange) drain() {
	if x.r.ContentLength == 0 || x.r.Header.Get("Expect") != "" {
		return
	}
	// If this fails, writing the answer shows whether the client is still there.
	_, _ = io.CopyN(io.Discard, x.r.Body, drainTimes*x.g.cfg.MaxBody)
}

func (x *exchange) unreadable(err error, limit int64) error {
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return tooLarge("the body has more bytes than allowed", limit)
	case errors.Is(err, errNoRoom):
		return &surfaces.Refusal{
			Code:        surfaces.CodeNoCapacity,
			Message:     "the bodies of the requests that are arriving take up all the memory set aside for them",
			Suggestion:  "Send the same request again in a second.",
			RetryAfterS: 1,
		}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return invalid(http.StatusRequestTimeout,
			fmt.Sprintf("the body did not arrive within %s", x.g.cfg.BodyTimeout), "Send the same request again, faster.")
	case x.ctx.Err() != nil || errors.Is(err, io.ErrUnexpectedEOF):
		return errGone
	}
	return invalid(http.StatusBadRequest, "the body could not be read: its transfer encoding is broken", "Send the body with a Content-Length.")
}

func tooLarge(what string, limit int64) error {
	return invalid(http.StatusRequestEntityTooLarge, fmt.Sprintf("%s, and the limit is %d", what, limit),
		"Make the code or the standard input shorter, for instance by putting data into a file that the code reads.")
}

// contentType refuses a body that is declared as something other than JSON. A missing type
// is accepted, and so is a form, which curl -d declares for everything. A form posted by
// another site carries no bearer token.
func (x *exchange) contentType() error {
	if x.r.ContentLength == 0 {
		return nil
	}
	unsupported := func(what string) error {
		return invalid(http.StatusUnsupportedMediaType, what, "Send JSON in UTF-8 with Content-Type: application/json.")
	}
	if enc := x.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return unsupported(fmt.Sprintf("a body with Content-Encoding %q is not taken", clip(enc, 50)))
	}
	given := x.r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	kind, params, err := mime.ParseMediaType(given)
	if err != nil || (kind != "application/json" && kind != "application/x-www-form-urlencoded" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))) {
		return unsupported(fmt.Sprintf("a body of Content-Type %q is not taken", clip(given, 100)))
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return unsupported(fmt.Sprintf("JSON in the charset %q is not taken", clip(charset, 50)))
	}
	return nil
}

var errNoRoom = errors.New("no room for the body")

// bodyReader reads a body of unknown length and takes memory from the budget as it grows.
type bodyReader struct {
	budget *budget
	from   io.Reader
	held   int64 // bytes taken from the budget so far
}

func (h *bodyReader) reserve(n int64) error {
	if !h.budget.take(n) {
		return errNoRoom
	}
	h.held += n
	return nil
}

func (h *bodyReader) release() { h.budget.free(h.held); h.held = 0 }

// all reads to the end. The declared length is trusted for one step only; for more memory
// the client has to send bytes.
func (h *bodyReader) all(claimed int64) ([]byte, error) {
	const step = 64 << 10
	size := int64(512)
	if claimed >= 0 {
		size = min(claimed+1, step) // one more byte, to see the end with the first read
	}
	if err := h.reserve(size); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, size)
	for {
		n, err := h.from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buf) < cap(buf) {
			continue
		}
		more := int64(cap(buf)) // doubled, but not beyond the declared length
		if claimed >= int64(len(buf)) {
			more = min(more, claimed+1-int64(len(buf)))
		}
		if err := h.reserve(more); err != nil {
			return nil, err
		}
		buf = append(make([]byte, 0, int64(cap(buf))+more), buf...)
	}
}
