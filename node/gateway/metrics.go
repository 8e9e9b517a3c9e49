package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/locusrun/locus/surfaces"
)

// The values of the label door: two protocols on one port.
const (
	doorHTTP = "http"
	doorMCP  = "mcp"
)

// metrics counts requests and calls. Every label has a fixed set of values; none comes from
// a caller.
type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	inFlight prometheus.Gauge
	calls    *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec
	output   *prometheus.CounterVec
	handler  http.Handler
}

func newMetrics(cfg Config) *metrics {
	reg := cfg.Registerer
	if reg == nil {
		reg = prometheus.NewRegistry()
		reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	fast := prometheus.ExponentialBuckets(0.0005, 2.5, 14) // 0.5 ms to 75 s
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "locus_requests_total", Help: "Requests answered, by door, route and status; gone when the client left first.",
		}, []string{"door", "route", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "locus_request_duration_seconds", Help: "From a request's header to the end of its answer.", Buckets: fast,
		}, []string{"door", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "locus_requests_running", Help: "Requests that are being answered.", ConstLabels: prometheus.Labels{"door": doorHTTP},
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "locus_calls_total", Help: "Calls of execute_code that ended, by language, state mode and status.",
		}, []string{"language", "mode", "status"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "locus_call_failures_total", Help: "Calls of execute_code that were refused or failed, by type of error.",
		}, []string{"error_type"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "locus_call_duration_seconds", Help: "How long calls of execute_code took.", Buckets: fast,
		}, []string{"language", "mode"}),
		output: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "locus_call_output_bytes_total", Help: "Bytes that calls wrote, shown or not.",
		}, []string{"stream"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "locus_build_info", Help: "Always 1; the label says the version.", ConstLabels: prometheus.Labels{"version": cfg.Version},
	})
	build.Set(1)
	reg.MustRegister(m.requests, m.latency, m.inFlight, m.calls, m.failures, m.duration, m.output, build, nodeCollector{cfg.Service, cfg.Log})
	m.handler = promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	})
	return m
}

func (m *metrics) request(door, route, status string, took time.Duration) {
	m.inFlight.Dec()
	m.requests.WithLabelValues(door, route, status).Inc()
	m.latency.WithLabelValues(door, route).Observe(took.Seconds())
}

// callWhenDone counts a call when it has ended. If it still runs, a goroutine waits for
// that; the Service ends every call.
func (m *metrics) callWhenDone(e Execution, log *slog.Logger) {
	if ended(e) {
		m.call(e.Result())
		return
	}
	go func() {
		err := safely(func() error {
			<-e.Done()
			m.call(e.Result())
			return nil
		})
		if err != nil {
			log.Error("a call was not counted", "call_id", e.ID(), "error", err)
		}
	}()
}

func (m *metrics) call(r surfaces.Result) {
	language, mode := known(r.Language, surfaces.Languages()), known(r.StateMode, surfaces.StateModes())
	m.calls.WithLabelValues(language, mode, known(&r.Status, surfaces.Statuses())).Inc()
	if r.ErrorType != nil {
		m.failures.WithLabelValues(known(r.ErrorType, errorTypes)).Inc()
	}
	if r.Status == surfaces.StatusRefused {
		return // it did not run
	}
	m.duration.WithLabelValues(language, mode).Observe(r.DurationMS / 1000)
	out, errs := int64(len(r.Stdout)), int64(len(r.Stderr))
	if t := r.Truncated; t != nil && t.Stdout != nil {
		out = t.Stdout.Total
	}
	if t := r.Truncated; t != nil && t.Stderr != nil {
		errs = t.Stderr.Total
	}
	m.output.WithLabelValues("stdout").Add(float64(max(0, out)))
	m.output.WithLabelValues("stderr").Add(float64(max(0, errs)))
}

// The values of labels that come from results.
var (
	errorTypes = []surfaces.ErrorType{
		surfaces.TypeValidation, surfaces.TypeConsent, surfaces.TypeUnavailable, surfaces.TypeStateLost, surfaces.TypeOutcomeUnknown,
		surfaces.TypeEnvironment, surfaces.TypeTimeout, surfaces.TypeKilled, surfaces.TypeException, surfaces.TypeAuth, surfaces.TypeInternal,
	}
	pressures     = []string{"none", "low", "critical"}
	sessionStates = []string{"live", "unreachable", "lost"}
)

// known returns the label for a value: none for nil, and other for a value not in the list.
func known[T ~string](value *T, list []T) string {
	if value == nil {
		return "none"
	}
	for _, v := range list {
		if v == *value {
			return string(v)
		}
	}
	return "other"
}

// nodeCollector reads the node's status at each scrape.
type nodeCollector struct {
	svc Service
	log *slog.Logger
}

var errNoStatus = errors.New("the node's status is not to be had")

var (
	sessionsDesc = prometheus.NewDesc("locus_sessions", "Sessions of the whole mesh, by state.", []string{"state"}, nil)
	runningDesc  = prometheus.NewDesc("locus_calls_running", "Calls that run.", nil, nil)
	nodesDesc    = prometheus.NewDesc("locus_nodes", "Nodes of the mesh.", nil, nil)
	leftDesc     = prometheus.NewDesc("locus_memory_available_bytes", "Memory that code can still have on this node.", nil, nil)
	pressureDesc = prometheus.NewDesc("locus_memory_pressure", "How short of memory the node is: 0 not at all, 1 low, 2 critical.", nil, nil)
	entriesDesc  = prometheus.NewDesc("locus_audit_entries_total", "Entries of this node's audit log, of all its runs.", nil, nil)
	lostDesc     = prometheus.NewDesc("locus_audit_lost_total", "Entries of the audit log that could not be written since the node was started.", nil, nil)
	failingDesc  = prometheus.NewDesc("locus_audit_failing", "Whether the audit log cannot be written: 1 or 0.", nil, nil)
	memoryDesc   = prometheus.NewDesc("locus_kernels_memory_bytes", "Memory of the processes that run code.", nil, nil)
)

// Describe implements prometheus.Collector.
func (nodeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sessionsDesc, runningDesc, nodesDesc, memoryDesc, leftDesc, pressureDesc, entriesDesc, lostDesc, failingDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c nodeCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var s StatusInfo
	// Prometheus runs collectors on goroutines where a panic would end the process.
	if err := safely(func() error { s = c.svc.Status(ctx, Caller{Operator: true}); return nil }); err != nil {
		ch <- prometheus.NewInvalidMetric(sessionsDesc, errNoStatus)
		c.log.Error("the status was not to be had for the metrics", "error", err)
		return
	}
	byState := make(map[string]int)
	for state, n := range s.Sessions {
		byState[known(&state, sessionStates)] += n
	}
	for _, state := range append([]string{"other"}, sessionStates...) {
		ch <- prometheus.MustNewConstMetric(sessionsDesc, prometheus.GaugeValue, float64(byState[state]), state)
	}
	if a := s.Audit; a != nil {
		failing := 0.0
		if a.Failing != "" {
			failing = 1
		}
		ch <- prometheus.MustNewConstMetric(entriesDesc, prometheus.CounterValue, float64(a.Head.Seq))
		ch <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, float64(a.Lost))
		ch <- prometheus.MustNewConstMetric(failingDesc, prometheus.GaugeValue, failing)
	}
	ch <- prometheus.MustNewConstMetric(runningDesc, prometheus.GaugeValue, float64(s.Running))
	ch <- prometheus.MustNewConstMetric(nodesDesc, prometheus.GaugeValue, float64(s.Nodes))
	ch <- prometheus.MustNewConstMetric(memoryDesc, prometheus.GaugeValue, float64(s.MemoryBytes))
	ch <- prometheus.MustNewConstMetric(leftDesc, prometheus.GaugeValue, float64(s.MemoryAvailableBytes))
	ch <- prometheus.MustNewConstMetric(pressureDesc, prometheus.GaugeValue, float64(max(0, slices.Index(pressures, s.MemoryPressure))))
}

// showMetrics serves the metrics; their handler writes the answer itself.
func (x *exchange) showMetrics() error {
	x.out.header().Set("Cache-Control", "no-store")
	x.out.deadline()
	w := &metered{answer: x.out}
	x.g.metrics.handler.ServeHTTP(w, x.r)
	return nil
}

// metered lets a foreign handler write through an answer.
type metered struct{ *answer }

// Header implements http.ResponseWriter.
func (m *metered) Header() http.Header { return m.header() }

// WriteHeader implements http.ResponseWriter.
func (m *metered) WriteHeader(status int) { m.start(status) }

// Write implements http.ResponseWriter.
func (m *metered) Write(p []byte) (int, error) {
	if !m.begun() {
		m.start(http.StatusOK)
	}
	return m.answer.Write(p)
}
