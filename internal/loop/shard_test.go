package loop

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
)

func instances(t *rapid.T) []action.ID {
	return rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) action.ID {
		return action.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
	}), 1, 6, rapid.ID[action.ID]).Draw(t, "instances")
}

// Each shard has one owner; who leaves gives its shards away and moves no other.
func TestEveryShardHasOneOwner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := instances(t)
		var owner [Shards]action.ID
		for _, self := range all {
			for shard, mine := range OwnShards(self, all) {
				if mine && !owner[shard].IsZero() {
					t.Fatalf("shard %d has two owners", shard)
				}
				if mine {
					owner[shard] = self
				}
			}
		}
		rest := all[1:]
		for _, self := range rest {
			for shard, mine := range OwnShards(self, rest) {
				if owner[shard] == all[0] {
					continue
				}
				if mine != (owner[shard] == self) {
					t.Fatalf("shard %d moved although its owner stayed", shard)
				}
			}
		}
	})
}

func TestShardsAreSharedFairly(t *testing.T) {
	t.Parallel()
	var all []action.ID
	for i := range 4 {
		all = append(all, action.DerivedID(action.ID{}.Time(), fmt.Sprint(i)))
	}
	for _, self := range all {
		count := 0
		for _, mine := range OwnShards(self, all) {
			if mine {
				count++
			}
		}
		if count < 6 || count > 28 {
			t.Errorf("%s owns %d of %d shards beside 3 others", self, count, Shards)
		}
	}
	if alone := OwnShards(all[0], nil); alone != OwnShards(all[0], all[:1]) || !alone[0] {
		t.Error("who is alone does not own all")
	}
}
