package services

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/store"
)

// Retention is the time for which the row of a service instance is kept after it was deleted.
const Retention = 30 * 24 * time.Hour

// piece is the number of rows that one transaction deletes.
const piece = 500

// Retain deletes the rows of service instances that have been gone for Retention. It is called hourly; an
// interrupted deletion is finished by the next call.
func (s *Services) Retain(ctx context.Context) error {
	for deleted := piece; deleted == piece; {
		err := s.db.Write(ctx, "delete service instances that are gone", func(tx *store.Tx) (err error) {
			deleted, err = s.in(tx).ForgetServiceInstances(tx.Now().Add(-Retention), piece)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
