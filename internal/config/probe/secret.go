package probe

import (
	"context"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/secret"
)

// secrets reads each secret of a handler.
func (l *looker) secrets(ctx context.Context, at []string, h config.Handler) {
	for i, s := range h.Secrets {
		l.look(ctx, append(at, "secrets", strconv.Itoa(i)), func(context.Context) error {
			_, err := secret.NewStore(s).Values(time.Now())
			return absent(err)
		})
	}
}
