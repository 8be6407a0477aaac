package promotions

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// attemptDocument is an attempt as it is stored.
type attemptDocument struct {
	promotion.Attempt
	CancelAt time.Time `json:"cancelAt,omitzero"`
}

// Document returns the attempt without its key as drivers store it.
func (a Attempt) Document() (string, error) { return Document(attemptDocument{a.Attempt, a.CancelAt}) }

// ReadDocument reads a result of Document.
func (a *Attempt) ReadDocument(text string) error {
	var d attemptDocument
	err := ReadDocument(text, &d)
	a.Attempt, a.CancelAt = d.Attempt, d.CancelAt
	return err
}

// Document returns a part of a pipeline's log as drivers store it.
func Document(value any) (string, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return "", fmt.Errorf("write the log of a Kubernetes pipeline: %w", err)
	}
	return string(raw), nil
}

// ReadDocument reads a result of Document.
func ReadDocument(text string, value any) error {
	if err := json.Unmarshal([]byte(text), value); err != nil {
		return fmt.Errorf("read the log of a Kubernetes pipeline: %w", err)
	}
	return nil
}
