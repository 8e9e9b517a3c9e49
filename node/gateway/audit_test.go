package gateway

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/locusrun/locus/node/audit"
)

func TestAuditQueryParametersReachTheService(t *testing.T) {
	f := newFake()
	_, srv := serve(t, f, nil)
	get := func(query string) (int, string) {
		resp, body := send(t, request(t, "GET", srv.URL+"/v1/audit"+query, ""))
		return resp.StatusCode, body
	}
	if status, body := get("?node=n2&actor=a&call_id=c&what=call_ended&from=2026-01-02T03:04:05Z&until=2026-01-02T03:04:05.5%2B01:00&limit=7"); status != http.StatusOK || !strings.Contains(body, `"n2"`) {
		t.Fatalf("%d %s, want status %v, body with \"n2\"", status, body, http.StatusOK)
	}
	want := AuditQuery{Node: "n2", Filter: audit.Filter{
		Actor: "a", CallID: "c", Kind: audit.CallEnded, Limit: 7,
		From: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Until: time.Date(2026, 1, 2, 2, 4, 5, 5e8, time.UTC),
	}}
	got := f.query
	if !got.From.Equal(want.From) || !got.Until.Equal(want.Until) {
		t.Errorf("%v %v", got.From, got.Until)
	}
	got.From, got.Until = want.From, want.Until
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"?limit=0", "?limit=1001", "?limit=x", "?from=yesterday", "?until=1", "?follow=maybe", "?follow=true&after=7"} {
		if status, body := get(bad); status != http.StatusUnprocessableEntity || !strings.Contains(body, "suggestion") {
			t.Errorf("%s: %d %s, want status %v, body with \"suggestion\"", bad, status, body, http.StatusUnprocessableEntity)
		}
	}
	if resp, body := send(t, request(t, "GET", srv.URL+"/v1/audit/verify?node=n3", "")); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"node":"n3"`) {
		t.Errorf("got %s, want status %v, body with \"node\":\"n3\"", body, http.StatusOK)
	}
}

func TestAuditStreamSendsEntriesWithPositions(t *testing.T) {
	const after, other = "n1.0.5,n2.0.8", "n1.0.1"
	for _, way := range []struct{ query, accept, header, after string }{
		{"?follow=true", "", "", ""},
		{"", "text/event-stream", "", ""},
		{"?follow=true&after=" + after, "", "", after},
		{"?follow=true&after=" + other, "", after, after},
	} {
		f := newFake()
		g, srv := serve(t, f, nil)
		r := request(t, "GET", srv.URL+"/v1/audit"+way.query, "")
		for name, value := range map[string]string{"Accept": way.accept, "Last-Event-ID": way.header} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		s := openEvents(t, r)
		entry, _ := s.next()
		failure, _ := s.next()
		if entry.name != "entry" || entry.id != "n1.0.7" || failure.id != "n1.0.7" || f.query.After.String() != way.after || !strings.Contains(entry.data, `"seq":7`) || failure.name != "failure" || !strings.Contains(failure.data, `"n2"`) {
			t.Errorf("%+v %+v", entry, failure)
		}
		g.Close()
		if rest := s.all(); len(rest) != 0 {
			t.Errorf("after the door closed: %+v", rest)
		}
	}
}

func TestEventStreamResumesFromAnID(t *testing.T) {
	f := newFake()
	_, srv := serve(t, f, nil)
	const at, other = "n1.5.7,n2.6.8", "n1.1.1"
	for _, way := range []struct{ query, header, want string }{{"?after=" + at, "", at}, {"", at, at}, {"?after=" + other, at, at}, {"", "", ""}} {
		r := request(t, "GET", srv.URL+"/v1/events"+way.query, "")
		if way.header != "" {
			r.Header.Set("Last-Event-ID", way.header)
		}
		s := openEvents(t, r)
		eventually(t, "it is asked", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.after.String() == way.want
		})
		s.resp.Body.Close()
	}
	for _, bad := range []string{"1", "n1.1", "n1.x.1", "n1.1.-1", ".1.1", "n1.1.1,", "n%0A.1.1", strings.Repeat("n.1.1,", 2000) + "n.1.1"} {
		if resp, body := send(t, request(t, "GET", srv.URL+"/v1/events?after="+bad, "")); resp.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%.20s: %d %s, want status %v", bad, resp.StatusCode, body, http.StatusUnprocessableEntity)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, seed := range []string{"n1.5.7,n2.6.8", "", ".1.1", "node-1f.1796000000000.12"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCursor(text)
		if err != nil {
			return
		}
		again, err := ParseCursor(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q becomes %q", text, c)
		}
	})
}
