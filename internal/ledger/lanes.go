package ledger

import "slices"

// lanesAfter reads lanes in a circle that begins behind after.
func lanesAfter(tx Tx, handlers []string, after string, limit int) ([]string, error) {
	lanes, err := lanesFrom(tx, handlers, after, limit)
	if err != nil || after == "" || len(lanes) >= limit {
		return lanes, err
	}
	first, err := lanesFrom(tx, handlers, "", limit)
	for _, lane := range first {
		if lane > after || len(lanes) >= limit {
			break
		}
		lanes = append(lanes, lane)
	}
	return lanes, err
}

// lanesFrom reads the lanes behind after, over all handlers, in order.
func lanesFrom(tx Tx, handlers []string, after string, limit int) ([]string, error) {
	var lanes []string
	for _, h := range handlers {
		some, err := tx.Lanes(h, after, limit)
		if err != nil {
			return nil, err
		}
		lanes = append(lanes, some...)
	}
	slices.Sort(lanes)
	lanes = slices.Compact(lanes)
	return lanes[:min(limit, len(lanes))], nil
}
