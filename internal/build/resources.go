package build

import (
	"math/big"
	"regexp"
	"strings"

	"github.com/waybill-dev/waybill/internal/document"
)

// Bounds of amounts: more than a computer has.
const (
	maxCPU    = 1_000_000 // thousandths of a core
	maxMemory = 1 << 50   // bytes, of memory and of storage
)

// quantity is the amounts of Kubernetes: a number with a decimal or binary suffix, or an exponent.
var quantity = regexp.MustCompile(`^\+?([0-9]{1,18}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]{1,2})?$`)

// resourcesTable returns the keys of resources, and of each amount.
func resourcesTable() []document.Key {
	amounts := []document.Key{
		{Name: "cpu", Shape: document.Text | document.Number, Help: "Cores, such as 2, 0.5 or 500m."},
		{Name: "memory", Shape: document.Text | document.Number, Help: "Bytes, such as 512Mi or 2G."},
		{Name: "ephemeral-storage", Shape: document.Text | document.Number, Help: "Bytes of files outside volumes, such as 10Gi."},
	}
	return []document.Key{
		{Name: "requests", Shape: document.Object, Keys: amounts, Help: "What a node must have left for the step."},
		{Name: "limits", Shape: document.Object, Keys: amounts, Help: "What the step can use at most."},
	}
}

// resources reads the resources of a step.
func (r *reader) resources(n *document.Node, scope string) (requests, limits Resources) {
	requests = r.amounts(n.Get("requests"), r.Join(scope, "requests"))
	limits = r.amounts(n.Get("limits"), r.Join(scope, "limits"))
	for _, amount := range []struct {
		name           string
		request, limit int64
	}{{"cpu", requests.CPU, limits.CPU}, {"memory", requests.Memory, limits.Memory}, {"ephemeral-storage", requests.Storage, limits.Storage}} {
		if amount.limit > 0 && amount.request > amount.limit {
			r.Add(n.Get("requests").Get(amount.name), "quantity-invalid", r.Join(r.Join(scope, "requests"), amount.name),
				"the request is more than the limit")
		}
	}
	return requests, limits
}

func (r *reader) amounts(n *document.Node, scope string) Resources {
	amount := func(name string, factor, most int64) int64 {
		given := n.Get(name)
		if given == nil || !isScalar(given) || given.Kind == document.Null || r.open(given) {
			return 0
		}
		value, ok := parseQuantity(given.Text, factor, most)
		if !ok {
			r.Add(given, "quantity-invalid", r.Join(scope, name), "%q is not a valid amount; write one such as %s", given.Text,
				map[bool]string{true: "2, 0.5 or 500m", false: "512Mi or 2G"}[name == "cpu"])
		}
		return value
	}
	return Resources{CPU: amount("cpu", 1000, maxCPU), Memory: amount("memory", 1, maxMemory),
		Storage: amount("ephemeral-storage", 1, maxMemory)}
}

// parseQuantity returns an amount times a factor, rounded up; false if it is not a positive amount of at most most.
func parseQuantity(text string, factor, most int64) (int64, bool) {
	parts := quantity.FindStringSubmatch(text)
	if parts == nil {
		return 0, false
	}
	number, suffix := parts[1], parts[2]
	exponent, binary := "", int64(1)
	switch at := strings.Index("numkMGTPE", suffix); {
	case suffix == "":
	case strings.HasSuffix(suffix, "i"):
		binary = 1 << (10 * (strings.Index("KMGTPE", suffix[:1]) + 1))
	case len(suffix) > 1:
		exponent = suffix
	default:
		exponent = []string{"e-9", "e-6", "e-3", "e3", "e6", "e9", "e12", "e15", "e18"}[at]
	}
	value, ok := new(big.Rat).SetString(number + exponent)
	if !ok {
		return 0, false
	}
	value.Mul(value, big.NewRat(factor, 1)).Mul(value, big.NewRat(binary, 1))
	up := new(big.Int).Add(value.Num(), new(big.Int).Sub(value.Denom(), big.NewInt(1)))
	up.Quo(up, value.Denom())
	if up.Sign() <= 0 || up.Cmp(big.NewInt(most)) > 0 {
		return 0, false
	}
	return up.Int64(), true
}
