package consentpage

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/locusrun/locus/agentlink"
)

func TestMain(m *testing.M) {
	// The server lets a connection whose request it has not read to the end lie for half a
	// second, also when it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait"))
}

// patience bounds every wait of these tests.
const patience = time.Minute

// browser is a client of the page.
type browser struct {
	t      *testing.T
	page   *Page
	secret string
	http   *http.Client
}

func opened(t *testing.T) *browser {
	t.Helper()
	p, err := Open(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{t: t, page: p, secret: p.secret, http: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	t.Cleanup(func() {
		b.http.CloseIdleConnections()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// request sends a request, after edit has changed it.
func (b *browser) request(method, path, body string, edit func(*http.Request)) (int, string, http.Header) {
	b.t.Helper()
	base, _, _ := strings.Cut(b.page.URL(), "#")
	req, err := http.NewRequestWithContext(b.t.Context(), method, base+strings.TrimPrefix(path, "/"), strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+b.secret)
	req.Header.Set("Content-Type", "application/json")
	if edit != nil {
		edit(req)
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// sees waits for a question other than the one seen.
func (b *browser) sees(seen string) shown {
	b.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		status, text, _ := b.request("GET", "/question?seen="+seen, "", nil)
		var q shown
		if err := json.Unmarshal([]byte(text), &q); status != http.StatusOK || err != nil {
			b.t.Fatalf("got %d %q, %v", status, text, err)
		}
		if q.ID != seen {
			return q
		}
	}
	b.t.Fatal("no other question came in time")
	return shown{}
}

func (b *browser) says(id, reply string) int {
	b.t.Helper()
	status, _, _ := b.request("POST", "/answer", `{"id":"`+id+`","reply":"`+reply+`"}`, nil)
	return status
}

type answered struct {
	reply agentlink.Reply
	err   error
}

// asks asks a question. The answer comes on the channel.
func (b *browser) asks(ctx context.Context, q agentlink.Question) <-chan answered {
	c := make(chan answered, 1)
	go func() {
		reply, err := b.page.Ask(ctx, q)
		c <- answered{reply, err}
	}()
	return c
}

var asking = agentlink.Question{CallID: "call_1", Actor: "ada", Thought: "to see", Language: "python", Code: "1 + 1\n", Folder: "/home/ada/agent", Files: []string{"in/a"}}

func TestTheOwnerAnswers(t *testing.T) {
	b := opened(t)
	for reply, want := range map[string]agentlink.Reply{"once": agentlink.ReplyOnce, "task": agentlink.ReplyTask, "no": agentlink.ReplyNo} {
		answer := b.asks(t.Context(), asking)
		q := b.sees("")
		if q.Actor != "ada" || q.Thought != "to see" || q.Language != "python" || q.Code != "1 + 1\n" || q.Folder != "/home/ada/agent" || q.CallID != "call_1" || len(q.Files) != 1 || q.Files[0] != "in/a" {
			t.Errorf("asked %+v", q)
		}
		if status := b.says("another", reply); status != http.StatusConflict {
			t.Errorf("another question was answered with %d", status)
		}
		if status := b.says(q.ID, reply); status != http.StatusNoContent {
			t.Errorf("answered with %d", status)
		}
		if got := <-answer; got.err != nil || got.reply != want {
			t.Errorf("%s: got %+v", reply, got)
		}
		// Who clicks twice does not answer the next question.
		if status := b.says(q.ID, reply); status != http.StatusConflict {
			t.Errorf("answered twice with %d", status)
		}
		if q := b.sees(q.ID); q.ID != "" {
			t.Errorf("there is still %+v", q)
		}
	}
}

func TestAQuestionThatIsOverIsTakenOff(t *testing.T) {
	b := opened(t)
	late := errors.New("too late")
	ctx, end := context.WithCancelCause(t.Context())
	timed, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer := b.asks(timed, asking)
	q := b.sees("")
	if q.WithinS <= 0 || q.WithinS > patience.Seconds() {
		t.Errorf("it waits %g s", q.WithinS)
	}
	other := b.asks(t.Context(), agentlink.Question{Actor: "bob"})
	end(late)
	if got := <-answer; !errors.Is(got.err, late) || got.reply != agentlink.ReplyNo {
		t.Errorf("got %+v", got)
	}
	if status := b.says(q.ID, "once"); status != http.StatusConflict {
		t.Errorf("answered with %d", status)
	}
	next := b.sees(q.ID)
	if next.ID == "" {
		next = b.sees("")
	}
	if next.Actor != "bob" {
		t.Errorf("then came %+v", next)
	}
	b.says(next.ID, "no")
	if got := <-other; got.reply != agentlink.ReplyNo || got.err != nil {
		t.Errorf("got %+v", got)
	}
}

// A client that is not the page, or does not have its secret, sees no question and answers
// none.
func TestStrangersAreTurnedAway(t *testing.T) {
	b := opened(t)
	answer := b.asks(t.Context(), asking)
	q := b.sees("")
	host := b.page.host
	port := host[strings.LastIndex(host, ":"):]
	for name, row := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"no secret":          {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"an empty one":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") }, http.StatusUnauthorized},
		"a wrong one":        {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.Repeat("A", len(b.secret))) }, http.StatusUnauthorized},
		"a part":             {func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+b.secret[1:]) }, http.StatusUnauthorized},
		"it in the query":    {func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "secret=" + b.secret }, http.StatusUnauthorized},
		"a rebound name":     {func(r *http.Request) { r.Host = "evil.example" + port }, http.StatusMisdirectedRequest},
		"another port":       {func(r *http.Request) { r.Host = "127.0.0.1:1" }, http.StatusMisdirectedRequest},
		"a name that begins": {func(r *http.Request) { r.Host = host + ".evil.example" }, http.StatusMisdirectedRequest},
		"another page":       {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		"a page of a file":   {func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"another server":     {func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, http.StatusForbidden},
		"one beside it":      {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, http.StatusForbidden},
		"one far off":        {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
	} {
		for _, to := range []struct{ method, path, body string }{{"GET", "/question?seen=", ""}, {"POST", "/answer", `{"id":"` + q.ID + `","reply":"once"}`}} {
			status, text, _ := b.request(to.method, to.path, to.body, row.edit)
			if status != row.want || strings.Contains(text, "ada") || strings.Contains(text, q.ID) {
				t.Errorf("%s, %s: got %d %q, want %d", name, to.path, status, text, row.want)
			}
		}
	}
	for name, row := range map[string]struct {
		method, path, body string
		edit               func(*http.Request)
		want               int
	}{
		"a form":         {"POST", "/answer", `{"id":"` + q.ID + `","reply":"once"}`, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		"no JSON":        {"POST", "/answer", `once`, nil, http.StatusBadRequest},
		"another reply":  {"POST", "/answer", `{"id":"` + q.ID + `","reply":"always"}`, nil, http.StatusBadRequest},
		"much":           {"POST", "/answer", `{"id":"` + strings.Repeat("x", maxAnswer) + `","reply":"once"}`, nil, http.StatusBadRequest},
		"by GET":         {"GET", "/answer?id=" + q.ID + "&reply=once", "", nil, http.StatusNotFound},
		"what is not":    {"GET", "/../page.go", "", nil, http.StatusNotFound},
		"by its own way": {"POST", "/", "", nil, http.StatusMethodNotAllowed},
	} {
		if status, text, _ := b.request(row.method, row.path, row.body, row.edit); status != row.want {
			t.Errorf("%s: got %d %q, want %d", name, status, text, row.want)
		}
	}
	select {
	case got := <-answer:
		t.Errorf("a stranger answered: %+v", got)
	default:
	}
	own := func(r *http.Request) {
		r.Header.Set("Origin", "http://"+host)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if status, text, _ := b.request("POST", "/answer", `{"id":"`+q.ID+`","reply":"once"}`, own); status != http.StatusNoContent {
		t.Fatalf("the page itself got %d %q", status, text)
	}
	if got := <-answer; got.reply != agentlink.ReplyOnce || got.err != nil {
		t.Errorf("got %+v", got)
	}
}

// The page loads nothing from elsewhere, cannot be framed, and contains no question.
func TestThePageStandsAlone(t *testing.T) {
	b := opened(t)
	b.secret = ""
	status, text, header := b.request("GET", "/", "", nil)
	if status != http.StatusOK || strings.Contains(text, b.page.secret) {
		t.Errorf("got %d %q, want status %v, text without %v", status, text, http.StatusOK, b.page.secret)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := header.Get(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	elsewhere := regexp.MustCompile(`//[a-z]|url\(|import|innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(| on[a-z]+=|style=|<script>`)
	err := fs.WalkDir(assets, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source, err := fs.ReadFile(assets, path)
		if found := elsewhere.Find(source); found != nil {
			t.Errorf("%s has %q", path, found)
		}
		if status, _, _ := b.request("GET", "/"+strings.TrimPrefix(path, "assets/"), "", nil); status != http.StatusOK && !strings.HasSuffix(path, "index.html") {
			t.Errorf("%s: %d", path, status)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// An agent's text cannot be made to look like something else.
func TestTextIsShownAsItIs(t *testing.T) {
	for text, want := range map[string]string{
		"a\n\tb é 漢": "a\n\tb é 漢",
		"a\rb":       "a\ufffdb",
		"x\u202ey":   "x\ufffdy", // right to left from here
		"a\u200bb":   "a\ufffdb", // no width
		"\x1b[2J":    "\ufffd[2J",
		"<b>&\"'":    "<b>&\"'", // text for the page, JSON on the way
	} {
		if got := plain(text, 100); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got, want := plain("ééé", 3), "é\n[4 more bytes are not shown]"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b := opened(t)
	answer := b.asks(t.Context(), agentlink.Question{Actor: "</script><img src=x>", Code: "\u202e"})
	_, text, header := b.request("GET", "/question?seen=", "", nil)
	if strings.Contains(text, "<") || header.Get("Content-Type") != "application/json" {
		t.Errorf("sent %q as %q", text, header.Get("Content-Type"))
	}
	if q := b.sees(""); q.Code != "\ufffd" || q.Actor != "</script><img src=x>" {
		t.Errorf("asked %+v", q)
	} else {
		b.says(q.ID, "no")
	}
	<-answer
}

func TestThePageIsBounded(t *testing.T) {
	b := opened(t)
	for range maxWaiting {
		b.page.polls <- struct{}{}
	}
	if status, _, _ := b.request("GET", "/question?seen=", "", nil); status != http.StatusTooManyRequests {
		t.Errorf("got %d, want status %v", status, http.StatusTooManyRequests)
	}
}
