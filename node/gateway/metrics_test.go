package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/locusrun/locus/surfaces"
)

func scrape(t *testing.T, url string) string {
	t.Helper()
	resp, body := send(t, request(t, "GET", url+"/metrics", "", header("Authorization", "")))
	if resp.StatusCode != 200 {
		t.Fatalf("%d %s, want status 200", resp.StatusCode, body)
	}
	return body
}

func TestMetricsCount(t *testing.T) {
	_, srv := serve(t, newFake(), nil)
	send(t, request(t, "POST", srv.URL+execute, program("1")))
	send(t, request(t, "POST", srv.URL+execute, program("1"), streaming))
	send(t, request(t, "POST", srv.URL+execute, program("code=timeout")))
	send(t, request(t, "POST", srv.URL+execute, `{"code":""}`))
	text := scrape(t, srv.URL)
	for _, line := range []string{
		`locus_requests_total{door="http",route="POST /v1/tools/execute_code",status="200"} 3`,
		`locus_requests_total{door="http",route="POST /v1/tools/execute_code",status="422"} 1`,
		`locus_calls_total{language="python",mode="stateless",status="done"} 2`,
		`locus_calls_total{language="python",mode="stateless",status="failed"} 1`,
		`locus_call_failures_total{error_type="timeout"} 1`,
		`locus_call_failures_total{error_type="validation"} 1`,
		`locus_call_duration_seconds_count{language="python",mode="stateless"} 3`,
		`locus_request_duration_seconds_count{door="http",route="POST /v1/tools/execute_code"} 4`,
		`locus_requests_running{door="http"} 1`, // the one that asks
		`locus_sessions{state="live"} 3`,
		`locus_sessions{state="lost"} 0`,
		`locus_calls_running 2`,
		`locus_build_info{version="test"} 1`,
		`go_goroutines `,
	} {
		if !strings.Contains(text, "\n"+line) {
			t.Errorf("missing: %s", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

func TestOutputBytesCountWhatWasCut(t *testing.T) {
	f := newFake()
	f.onStart = func(c *fakeCall) {
		r := c.Result()
		r.Status, r.Stdout, r.Stderr = surfaces.StatusDone, "head tail", "12345"
		r.Truncated = &surfaces.Truncation{Stdout: &surfaces.Shown{Shown: 9, Total: 1 << 30}}
		c.end(r)
	}
	_, srv := serve(t, f, nil)
	send(t, request(t, "POST", srv.URL+execute, program("1")))
	text := scrape(t, srv.URL)
	for _, line := range []string{`{stream="stdout"} 1.073741824e+09`, `{stream="stderr"} 5`} {
		if !strings.Contains(text, "locus_call_output_bytes_total"+line) {
			t.Errorf("missing: %s", line)
		}
	}
}

// A call in the background is counted when it ends.
func TestBackgroundCallIsCounted(t *testing.T) {
	f := newFake()
	started := scripted(f)
	_, srv := serve(t, f, nil)
	send(t, request(t, "POST", srv.URL+execute, `{"language":"bash","code":"1","background":true}`))
	const line = `locus_calls_total{language="bash",mode="stateless",status="done"} 1`
	if strings.Contains(scrape(t, srv.URL), line) {
		t.Error("counted before its end")
	}
	(<-started).finish()
	eventually(t, "counted", func() bool { return strings.Contains(scrape(t, srv.URL), line) })
}

// Nothing that a caller or a Service says makes a new series beyond the lists.
func TestMetricLabelsAreBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	f := newFake()
	n := 0
	f.onStart = func(c *fakeCall) {
		n++
		odd := fmt.Sprintf("odd-%d", n)
		language, mode, kind := surfaces.Language(odd), surfaces.StateMode(odd), surfaces.ErrorType(odd)
		r := c.Result()
		r.Status, r.Language, r.StateMode, r.ErrorType = surfaces.Status(odd), &language, &mode, &kind
		c.end(r)
	}
	f.status = func() StatusInfo { return StatusInfo{Sessions: map[string]int{fmt.Sprint("odd-", n): 1}} }
	_, srv := serve(t, f, func(c *Config) { c.Registerer = reg })
	storm := func(from int) {
		for i := from; i < from+50; i++ {
			send(t, request(t, "POST", srv.URL+execute, program("1")))
			send(t, request(t, "GET", fmt.Sprintf("%s/v1/x%d", srv.URL, i), ""))
			send(t, request(t, "GET", fmt.Sprintf("%s/v1/executions/c%d?from=0", srv.URL, i), ""))
			send(t, request(t, fmt.Sprintf("M%d", i), srv.URL+"/v1/status", ""))
			send(t, request(t, "GET", srv.URL+"/v1/status", "", header("Authorization", fmt.Sprint("Bearer t", i))))
		}
	}
	series := func() int {
		n, err := testutil.GatherAndCount(reg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	storm(0)
	before := series()
	storm(50)
	if after := series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) != 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestMetricsNeedATokenFromElsewhere(t *testing.T) {
	_, srv := serve(t, newFake(), func(c *Config) { c.Hosts = []string{"locus.example"} })
	for _, edit := range []func(*http.Request){header("X-Forwarded-For", "192.0.2.1"), func(r *http.Request) { r.Host = "locus.example" }} {
		r := request(t, "GET", srv.URL+"/metrics", "", edit)
		if resp, _ := send(t, r); resp.StatusCode != 200 {
			t.Errorf("with a token: %d", resp.StatusCode)
		}
		r = request(t, "GET", srv.URL+"/metrics", "", edit, header("Authorization", ""))
		if resp, _ := send(t, r); resp.StatusCode != 401 {
			t.Errorf("without: %d", resp.StatusCode)
		}
	}
}

// A Service that panics while it is measured costs the answer, not the process.
func TestMetricsOfABrokenService(t *testing.T) {
	f := newFake()
	f.status = func() StatusInfo { panic("no status") }
	_, srv := serve(t, f, nil)
	resp, body := send(t, request(t, "GET", srv.URL+"/metrics", ""))
	if resp.StatusCode != 500 || strings.Contains(body, "goroutine") {
		t.Errorf("%d %s, want status 500, body without \"goroutine\"", resp.StatusCode, body)
	}
}
