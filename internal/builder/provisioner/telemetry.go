package provisioner

import (
	"net/netip"
	"net/url"
	"strings"
)

// Telemetry is the variables that name the destination of builds' spans, as pairs NAME=VALUE. Values may be secret.
type Telemetry []string

// telemetryNames are the variables that workers in containers and pods get. Files and resource attributes are those of
// the provisioner itself.
var telemetryNames = []string{
	"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_SERVICE_NAME",
	"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TIMEOUT",
	"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
	"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
}

// TelemetryFrom returns the variables of an environment that workers get. A collector at this machine's own address
// is not theirs: without another they get nothing.
func TelemetryFrom(environment func(string) string) Telemetry {
	var found Telemetry
	for _, name := range telemetryNames {
		value := environment(name)
		switch {
		case value == "":
		case strings.HasSuffix(name, "_ENDPOINT") && isLoopback(value):
			return nil
		default:
			found = append(found, name+"="+value)
		}
	}
	return found
}

// isLoopback reports whether a URL names a machine as itself.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false // the worker reports the fault
	}
	at, _ := netip.ParseAddr(u.Hostname()) // zero: a name
	return u.Hostname() == "localhost" || at.IsLoopback()
}

// public returns the variables but those that have secrets: headers, and endpoints with a user or a query.
func (t Telemetry) public() (shown []string) {
	for _, pair := range t {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasSuffix(name, "_HEADERS") && !strings.ContainsAny(value, "@?") {
			shown = append(shown, pair)
		}
	}
	return shown
}
