package loop

import (
	"hash/fnv"

	"github.com/waybill-dev/waybill/internal/action"
)

// Shards is the number of parts into which instances divide work that they share.
const Shards = 64

// ShardOf returns the shard of a name, such as that of a workflow.
func ShardOf(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // never fails (hash.Hash)
	return int(h.Sum32() % Shards)
}

// OwnShards returns the set of shards that self wins among the living instances by rendezvous
// hashing: an instance that comes or goes moves only the shards that it wins.
func OwnShards(self action.ID, living []action.ID) (mine [Shards]bool) {
	for shard := range mine {
		mine[shard] = true
		own := weight(shard, self)
		for _, other := range living {
			if other == self {
				continue
			}
			theirs := weight(shard, other)
			if theirs > own || (theirs == own && other.String() > self.String()) {
				mine[shard] = false
				break
			}
		}
	}
	return mine
}

// weight returns an instance's claim to a shard.
func weight(shard int, instance action.ID) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte{byte(shard)}) // never fails (hash.Hash)
	_, _ = h.Write(instance[:])
	return mix(h.Sum64())
}

// mix spreads the bits: FNV leaves those of short inputs close together.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
