package node

import "testing"

// Traces are exported if an endpoint is configured and nothing disables them.
func TestWhetherTracesAreExported(t *testing.T) {
	for name, x := range map[string]struct {
		endpoint    string
		environment map[string]string
		want        bool
	}{
		"nothing said":        {"", nil, false},
		"an endpoint":         {"http://h:4318", nil, true},
		"the environment's":   {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, true},
		"its own for traces":  {"", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318/x"}, true},
		"an empty one":        {"", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, false},
		"another's exporter":  {"http://h:4318", map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
		"ours by name":        {"http://h:4318", map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"all of it disabled":  {"http://h:4318", map[string]string{"OTEL_SDK_DISABLED": "true"}, false},
		"not disabled at all": {"http://h:4318", map[string]string{"OTEL_SDK_DISABLED": "false"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range append(traceVariables, "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED") {
				t.Setenv(key, x.environment[key])
			}
			if got := (Config{TraceEndpoint: x.endpoint}).tracesWanted(); got != x.want {
				t.Errorf("got %v, want %v", got, x.want)
			}
		})
	}
}
