package sqlite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// One process runs roles on a file, by waybill.lock: there are no instances to keep.

func (t *tx) PutInstance(ledger.Instance, time.Duration, int64) error { return nil }

func (t *tx) RenewInstance(ledger.Instance, time.Duration) (bool, error) { return true, nil }

func (t *tx) DeleteInstance(action.ID) error { return nil }

func (t *tx) Instances() ([]ledger.InstanceRow, error) { return nil, nil }

func (t *tx) BuryInstances(action.ID) error { return nil }

func (t *tx) InsertToken(token ledger.Token) error {
	scopes, err := json.Marshal(token.Scopes)
	if err != nil {
		return fmt.Errorf("write token %s: %w", token.Name, err)
	}
	_, err = t.exec(`INSERT INTO token (hash, name, scopes, created_at, expires_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?)`,
		token.Hash[:], token.Name, string(scopes), micros(token.CreatedAt), micros(token.ExpiresAt), micros(token.RevokedAt))
	return err
}

func scanToken(s scanner) (k ledger.Token, err error) {
	var hash []byte
	var scopes string
	if err := s.Scan(&hash, &k.Name, &scopes, moment{&k.CreatedAt}, moment{&k.ExpiresAt}, moment{&k.RevokedAt}); err != nil {
		return k, err
	}
	copy(k.Hash[:], hash)
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
		return k, fmt.Errorf("read token %s: %w", k.Name, err)
	}
	return k, nil
}

func (t *tx) Tokens(hash []byte) ([]ledger.Token, error) {
	query := `SELECT hash, name, scopes, created_at, expires_at, revoked_at FROM token`
	if hash != nil {
		return rows(t, scanToken, query+` WHERE hash = ?`, hash)
	}
	return rows(t, scanToken, query+` ORDER BY name`)
}

func (t *tx) RevokeToken(name string) (int, error) {
	return t.exec(`UPDATE token SET revoked_at = coalesce(revoked_at, ?) WHERE name = ?`, micros(t.now), name)
}
