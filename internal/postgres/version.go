package postgres

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-dev/waybill/internal/obs"
)

// fixedIn returns the release that a server of a version (server_version_num) should be updated to; "": it is new enough. Earlier ones
// do not look again at a row that is found by its place when another transaction has just changed it.
func fixedIn(version int) string {
	major, minor := version/10000, version%10000
	for _, least := range []struct{ major, minor int }{{15, 15}, {16, 11}, {17, 7}} {
		if major == least.major && minor < least.minor {
			return fmt.Sprintf("%d.%d", least.major, least.minor)
		}
	}
	return ""
}

// warnOfVersion logs when the server lacks a fix. It works all the same: the fence keeps an end from another claim.
func warnOfVersion(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	var version int
	if err := pool.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if least := fixedIn(version); least != "" {
		log.Warn("update PostgreSQL: it lacks a fix for rows that change while they are read", obs.KeyReason,
			fmt.Sprintf("it is %d.%d, want %s or newer", version/10000, version%10000, least))
	}
	return nil
}
