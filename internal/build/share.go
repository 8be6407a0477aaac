package build

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Several aggregators share the workers, so that each follows a part. That saves work and nothing else: a worker that two follow is stored
// once, and one that none follows for a while loses nothing.

// Shard is a fixed share: that of replica Index of Count. The zero Shard means that none is fixed.
type Shard struct {
	Index int // number of the shard, from 1
	Count int
}

// mostShards bounds the number of replicas.
const mostShards = 10_000

// ParseShard reads i/N, or /N for the ordinal of a StatefulSet's pod, which its host's name ends with, plus one.
func ParseShard(text, hostName string) (Shard, error) {
	first, second, found := strings.Cut(text, "/")
	count, err := strconv.Atoi(second)
	if !found || err != nil || count < 1 || count > mostShards {
		return Shard{}, fmt.Errorf("want i/N, such as 2/3, or /N in a StatefulSet, with N from 1 to %d; found %q", mostShards, text)
	}
	if first == "" {
		ordinal, err := strconv.ParseUint(hostName[strings.LastIndex(hostName, "-")+1:], 10, 31)
		if err != nil || !strings.Contains(hostName, "-") {
			return Shard{},
				fmt.Errorf("%q is not the name of a StatefulSet's pod, such as aggregator-0: name the share, such as 1%s", hostName, text)
		}
		first = strconv.FormatUint(ordinal+1, 10)
	}
	index, err := strconv.Atoi(first)
	if err != nil || index < 1 || index > count {
		return Shard{}, fmt.Errorf("share %s of %d: want one from 1 to %d", first, count, count)
	}
	return Shard{index, count}, nil
}

// Has reports whether a worker belongs to the share, by the UID of its pod or by any other id.
func (s Shard) Has(worker string) bool {
	number := new(big.Int).SetBytes(uid(worker))
	return number.Mod(number, big.NewInt(int64(s.Count))).Int64() == int64(s.Index-1)
}

// uid returns a UUID as its 16 bytes, and of any other text as many of its digest.
func uid(text string) []byte {
	const size = 16
	parts := strings.Split(text, "-")
	lengths := make([]int, len(parts))
	for i, part := range parts {
		lengths[i] = len(part)
	}
	if bytes, err := hex.DecodeString(strings.Join(parts, "")); err == nil && slices.Equal(lengths, []int{8, 4, 4, 4, 12}) {
		return bytes
	}
	sum := sha256.Sum256([]byte(text))
	return sum[:size]
}

// ReplicaOf returns which of the replicas a worker belongs to, by rendezvous hashing: the one whose digest together with the worker is
// greatest. When a replica comes or goes, no worker moves but to or from that one. "" if there is none.
func ReplicaOf(worker string, replicas []string) (best string) {
	var most uint64
	for _, replica := range replicas {
		sum := sha256.Sum256([]byte(replica + "\x00" + worker))
		if weight := binary.BigEndian.Uint64(sum[:]); best == "" || weight > most || weight == most && replica < best {
			best, most = replica, weight
		}
	}
	return best
}
