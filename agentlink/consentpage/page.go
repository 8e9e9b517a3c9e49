// Package consentpage asks the owner of a linked machine for consent on a web page that the
// machine itself serves. It is for machines without a terminal.
//
// The page is served only on the loopback address, at a port that the system chooses.
// Questions and answers require a secret, which is in the fragment of the page's URL:
// browsers do not send it, and other pages and other users of the machine do not know it.
// Requests with another host name, and requests from other pages, are rejected. The page
// loads nothing from elsewhere, and shows an agent's text only as text.
package consentpage

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"github.com/locusrun/locus/agentlink"
)

// Bounds on requests.
const (
	maxConnections = 64
	maxHeader      = 16 << 10
	maxAnswer      = 1 << 10
	maxWaiting     = 16
	// readWithin bounds the time to read a request. longPoll is how long a request waits
	// for a new question.
	readWithin = 5 * time.Second
	longPoll   = 20 * time.Second
)

// Page is a page that is being served. Its methods are safe for concurrent use.
type Page struct {
	host, secret string
	questions    questions
	server       *http.Server
	served       chan error
	polls        chan struct{} // a semaphore for requests that wait for a new question
}

// Open serves the page until Close. log may be nil.
func Open(log *slog.Logger) (*Page, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("consentpage: %w", err)
	}
	p := &Page{
		host: listener.Addr().String(), secret: rand.Text(), served: make(chan error, 1), polls: make(chan struct{}, maxWaiting),
		questions: questions{changed: make(chan struct{})},
	}
	p.server = &http.Server{
		Handler: p.guarded(p.routes()), ReadTimeout: readWithin, WriteTimeout: longPoll + readWithin, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() { p.served <- p.server.Serve(netutil.LimitListener(listener, maxConnections)) }()
	return p, nil
}

// URL returns the address of the page, with its secret.
func (p *Page) URL() string { return "http://" + p.host + "/#" + p.secret }

// Ask shows a question and waits for the answer. When ctx ends, it removes the question and
// returns the cause.
func (p *Page) Ask(ctx context.Context, q agentlink.Question) (agentlink.Reply, error) {
	asked := p.questions.put(ctx, q)
	defer p.questions.take(asked.shown.ID)
	select {
	case reply := <-asked.reply:
		return reply, nil
	case <-ctx.Done():
		return agentlink.ReplyNo, context.Cause(ctx)
	}
}

// Close stops serving. Questions that wait can no longer be answered.
func (p *Page) Close() error {
	err := p.server.Close()
	if served := <-p.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("consentpage: %w", err)
	}
	return nil
}

//go:embed assets
var assets embed.FS

func (p *Page) routes() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /question", p.withSecret(p.question))
	mux.HandleFunc("POST /answer", p.withSecret(p.answer))
	return mux
}

// guarded rejects requests that do not come from the page itself: those with another host
// name, against DNS rebinding, and those of other origins.
func (p *Page) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		origin, from := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
		switch {
		case r.Host != p.host:
			http.Error(w, "this page has another address", http.StatusMisdirectedRequest)
		case origin != "" && origin != "http://"+p.host, from != "" && from != "same-origin" && from != "none":
			http.Error(w, "this page answers to no other", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (p *Page) withSecret(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(secret), []byte(p.secret)) != 1 {
			http.Error(w, "the secret is missing or wrong: open the page by the whole URL that locus link has printed", http.StatusUnauthorized)
			return
		}
		next(w, r)
	}
}

// question returns the first question, once that differs from the one that the page shows.
func (p *Page) question(w http.ResponseWriter, r *http.Request) {
	select {
	case p.polls <- struct{}{}:
		defer func() { <-p.polls }()
	default:
		http.Error(w, "the page is open too often", http.StatusTooManyRequests)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), longPoll)
	defer cancel()
	w.Header().Set("Content-Type", "application/json")
	// An error means that the page has gone.
	_ = json.NewEncoder(w).Encode(p.questions.other(ctx, r.URL.Query().Get("seen")))
}

// answer receives the owner's answer to a question.
func (p *Page) answer(w http.ResponseWriter, r *http.Request) {
	var said struct {
		ID    string          `json:"id"`
		Reply agentlink.Reply `json:"reply"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&said)
	known := said.Reply == agentlink.ReplyOnce || said.Reply == agentlink.ReplyTask || said.Reply == agentlink.ReplyNo
	switch {
	case r.Header.Get("Content-Type") != "application/json":
		http.Error(w, "an answer is JSON", http.StatusUnsupportedMediaType)
	case err != nil || !known:
		http.Error(w, `an answer is {"id": ..., "reply": "once", "task" or "no"}`, http.StatusBadRequest)
	case !p.questions.answer(said.ID, said.Reply):
		http.Error(w, "this question is not waiting any more", http.StatusConflict)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
