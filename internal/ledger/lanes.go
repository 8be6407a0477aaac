package ledger

// lanesAfter reads lanes in a circle that begins behind after.
func lanesAfter(tx Tx, handlers []string, after string, limit int) ([]string, error) {
	lanes, err := tx.Lanes(handlers, after, limit)
	if err != nil || after == "" || len(lanes) >= limit {
		return lanes, err
	}
	first, err := tx.Lanes(handlers, "", limit)
	for _, lane := range first {
		if lane > after || len(lanes) >= limit {
			break
		}
		lanes = append(lanes, lane)
	}
	return lanes, err
}
