package build_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestShardsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, host string
		want       build.Shard
	}{
		{"1/1", "", build.Shard{Index: 1, Count: 1}}, {"2/3", "x", build.Shard{Index: 2, Count: 3}},
		{"/3", "waybill-aggregator-0", build.Shard{Index: 1, Count: 3}}, {"/3", "a-2", build.Shard{Index: 3, Count: 3}},
		{"/10000", "a-12", build.Shard{Index: 13, Count: 10000}},
	} {
		if got, err := build.ParseShard(c.text, c.host); err != nil || got != c.want {
			t.Errorf("%s at %s: %+v, %v; want %+v", c.text, c.host, got, err, c.want)
		}
	}
	for _, bad := range [][2]string{{"", ""}, {"2", ""}, {"0/3", ""}, {"4/3", ""}, {"-1/3", ""}, {"1/0", ""},
		{"1/10001", ""}, {"a/3", ""}, {"1/b", ""},
		{"/3", "host"}, {"/3", "a-b"}, {"/3", "a-3"}, {"/3", "a-99999999999"}, {"/3", "7"}, {"/3", "a-+1"}, {"1/2/3", ""}} {
		if got, err := build.ParseShard(bad[0], bad[1]); err == nil {
			t.Errorf("%s at %q: %+v", bad[0], bad[1], got)
		}
	}
}

func TestAShardIsTheUIDModuloTheCount(t *testing.T) {
	t.Parallel()
	for uid, want := range map[string]int{
		"00000000-0000-0000-0000-000000000000": 1, "00000000-0000-0000-0000-000000000004": 2,
		"ffffffff-ffff-ffff-ffff-ffffffffffff": 1, "00000000-0000-0001-0000-000000000001": 3,
	} {
		for i := range 3 {
			if got := (build.Shard{Index: i + 1, Count: 3}).Has(uid); got != (i+1 == want) {
				t.Errorf("%s in %d of 3: %v", uid, i+1, got)
			}
		}
	}
}

// someWorkers returns ids of workers of every platform.
func someWorkers(seed uint64, n int) (workers []string) {
	random := rand.New(rand.NewPCG(seed, seed))
	for i := range n {
		a, b := random.Uint64(), random.Uint64()
		workers = append(workers, []string{fmt.Sprintf("local-%d", i), fmt.Sprintf("%016x%016x", a, b),
			fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", uint32(a), uint16(a>>32), uint16(a>>48)&0xfff, uint16(b), b>>16)}[i%3])
	}
	return workers
}

// TestSharesAreDisjointAndEven: each worker has one replica, and no replica has much more than its part.
func TestSharesAreDisjointAndEven(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const n = 1000
		workers, count := someWorkers(rapid.Uint64().Draw(t, "seed"), n), rapid.IntRange(1, 8).Draw(t, "replicas")
		replicas := replicasOf(count)
		fixed, hashed := map[int]int{}, map[string]int{}
		for _, w := range workers {
			owners := 0
			for i := range count {
				if (build.Shard{Index: i + 1, Count: count}).Has(w) {
					owners++
					fixed[i]++
				}
			}
			if owners != 1 {
				t.Fatalf("%s belongs to %d of %d shards", w, owners, count)
			}
			hashed[build.ReplicaOf(w, replicas)]++
		}
		for i, replica := range replicas {
			if part := n / count; fixed[i] < part/2 || fixed[i] > part*3/2 || hashed[replica] < part/2 || hashed[replica] > part*3/2 {
				t.Errorf("replica %d of %d has %d workers by shard, and %d by rendezvous; want about %d", i+1, count, fixed[i], hashed[replica], part)
			}
		}
	})
}

func replicasOf(count int) (replicas []string) {
	for i := range count {
		replicas = append(replicas, fmt.Sprintf("host-%d/%d", i, 100+i))
	}
	return replicas
}

// TestOnlyTheWorkersOfAReplicaMove when it dies, and only to it when it comes; about 1/N of all.
func TestOnlyTheWorkersOfAReplicaMove(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const n = 1000
		workers, count := someWorkers(rapid.Uint64().Draw(t, "seed"), n), rapid.IntRange(2, 8).Draw(t, "replicas")
		before := replicasOf(count)
		dead := rapid.SampledFrom(before).Draw(t, "dead")
		after := slices.DeleteFunc(slices.Clone(before), func(r string) bool { return r == dead })
		rand.Shuffle(len(after), func(i, j int) { after[i], after[j] = after[j], after[i] }) // the order has no meaning
		moved := 0
		for _, w := range workers {
			was, is := build.ReplicaOf(w, before), build.ReplicaOf(w, after)
			switch {
			case is == dead || is == "":
				t.Fatalf("%s belongs to %q, which is gone", w, is)
			case was == dead:
				moved++
			case was != is:
				t.Fatalf("%s moved from %s to %s, while %s went", w, was, is, dead)
			}
		}
		if part := n / count; moved < part/2 || moved > part*3/2 {
			t.Errorf("%d of %d workers moved among %d replicas", moved, n, count)
		}
	})
	if got := build.ReplicaOf("local-1", nil); got != "" {
		t.Errorf("without replicas: %q", got)
	}
}
