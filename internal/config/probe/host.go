package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/waybill-dev/waybill/internal/config"
)

// host resolves the host of a webhook and asks the address guard, unless the host depends on an action's parameters. With
// a proxy it resolves the proxy's host, since the proxy resolves the target's.
func host(ctx context.Context, h config.Handler) error {
	if !h.Request.URL.HostConstant() {
		return nil
	}
	some := map[string]any{}
	for _, p := range h.Parameters {
		some[p.Name] = "x"
	}
	address, err := h.Request.Address(some, nil)
	if err != nil {
		return nil //nolint:nilerr // its path depends on parameters in ways that only an action shows
	}
	via, err := h.Request.Proxy.For(address)
	if err != nil {
		return absent(err)
	}
	if via != nil {
		_, err := addressesOf(ctx, via.Hostname())
		return err
	}
	found, err := addressesOf(ctx, address.Hostname())
	if err != nil {
		return err
	}
	if slices.ContainsFunc(found, func(a netip.Addr) bool { return h.Request.Guard.Check(a) == nil }) {
		return nil
	}
	return absent(h.Request.Guard.Check(found[0]))
}

// addressesOf returns the addresses of a host.
func addressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if wrong, ok := errors.AsType[*net.DNSError](err); ok && wrong.IsNotFound {
		return nil, notThere{fmt.Errorf("host %s not found", host)}
	}
	return found, err
}
