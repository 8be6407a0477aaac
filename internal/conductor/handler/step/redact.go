package step

import (
	"maps"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/secret"
)

// redacted is an error with another text, which has no secrets. Its kind and its hint stay those of the error.
type redacted struct {
	error
	text string
}

func (r redacted) Error() string { return r.text }

func (r redacted) Unwrap() error { return r.error }

// redact returns the error of an attempt without the secrets of the service: an error shows the output of programs on
// the host, and the log keeps it. A secret counts as this attempt has read it, else as its file is now. One whose
// file cannot be read is not known here, and is not searched for.
func (t *attempt) redact(err error) error {
	if err == nil || len(t.Service.Secrets) == 0 {
		return err
	}
	return redacted{err, t.redactor().Text(err.Error())}
}

func (t *attempt) redactor() *secret.Redactor {
	values := t.config.secretsOf(&t.Service)
	maps.Copy(values, t.secrets)
	return values.Redactor()
}

// secretsOf returns the secrets of a service whose files can be read here, as they are now.
func (h *Hosts) secretsOf(service *pipeline.Service) secret.Values {
	values := make(secret.Values, len(service.Secrets))
	for name, file := range service.Secrets {
		if value, err := h.secret(name, file); err == nil {
			values[name] = value
		}
	}
	return values
}
