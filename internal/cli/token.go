package cli

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
)

const tokenHelp = `A token lets a person or a program change things through a server (waybill up, waybill serve
api). It is shown once, when it is made; the log keeps a hash. The home's own token, in its
file "token", may do everything. Tokens are made beside the log: --home or --store.`

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Make and revoke tokens for the API", tokenHelp,
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

// scopes that a token may have.
func scopes() []string {
	return []string{string(server.ScopeRead), string(server.ScopeExecute), string(server.ScopeOperate),
		string(server.ScopeDefine), string(server.ScopeApprove), string(server.ScopeWorker)}
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var wanted []string
	expires := ""
	c := &cobra.Command{
		Use:   "create NAME --scope SCOPE,…",
		Short: "Make a token and print it, once",
		Long: `Makes a token that may do what its scopes name. Every token may read.

  read     look, and nothing else
  execute  register revisions, start deployments
  operate  retry, skip, hold, resume, cancel
  define   apply pipelines
  approve  let a stage begin (no stage waits for approval yet)
  worker   report builds`,
		Example: examples("waybill token create ci --scope execute,define --expires 90d", "waybill token create dashboard --scope read"),
		Args:    arguments(1, 1, "NAME"),
		RunE: func(c *cobra.Command, arguments []string) error {
			token, err := newToken(arguments[0], wanted, expires, time.Now())
			if err != nil {
				return err
			}
			return a.withTokens(c, assembly.Create, func(ctx context.Context, l *ledger.Ledger) error { return a.createToken(ctx, l, token) })
		},
	}
	c.Flags().StringSliceVar(&wanted, "scope", nil, "what it may do (repeatable, or separated by commas): "+strings.Join(scopes(), ", "))
	c.Flags().StringVar(&expires, "expires", "", "how long it is valid, such as 90d (default: until revoked)")
	offer(c, "scope", scopes()...)
	return c
}

// tokenName is what a token may be called.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// newToken checks what was asked for; the hash is still missing.
func newToken(name string, wanted []string, expires string, now time.Time) (ledger.Token, error) {
	token := ledger.Token{Name: name, Scopes: wanted}
	if !tokenName.MatchString(name) {
		return token, fault.New(fault.Invalid, "the name %q: letters, digits, \".\", \"_\" and \"-\" only, at most 63", name)
	}
	if len(wanted) == 0 {
		return token, fault.New(fault.Invalid, "what may the token do?").WithHint("--scope %s", strings.Join(scopes(), ", "))
	}
	for _, scope := range wanted {
		if !slices.Contains(scopes(), scope) {
			return token, fault.New(fault.Invalid, "there is no scope %q", scope).
				WithHint("--scope %s", show.FirstOf(fault.Nearest(scope, scopes()), strings.Join(scopes(), ", ")))
		}
	}
	if expires != "" {
		d, err := definition.ParseDuration(expires)
		if err != nil || d <= 0 {
			return token, fault.New(fault.Invalid, "--expires %s: want a duration such as 90d", expires)
		}
		token.ExpiresAt = now.UTC().Add(d)
	}
	return token, nil
}

// createdToken is `waybill token create -o json`.
type createdToken struct {
	ledger.Token
	Secret string `json:"secret"`
}

func (a *app) createToken(ctx context.Context, l *ledger.Ledger, token ledger.Token) error {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := "wb_" + hex.EncodeToString(random[:])
	token.Hash = sha256.Sum256([]byte(secret))
	if err := l.CreateToken(ctx, token); err != nil {
		return err
	}
	if a.json() {
		return a.printer().Document(createdToken{Token: token, Secret: secret})
	}
	_, err := fmt.Fprintln(a.out, secret)
	return err
}

func (a *app) tokenListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List tokens",
		Example: examples("waybill token list"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withTokens(c, assembly.Existing, a.listTokens)
		},
	}
}

func (a *app) listTokens(ctx context.Context, l *ledger.Ledger) error {
	tokens, err := l.ListTokens(ctx)
	if err != nil {
		return err
	}
	return show.List(a.printer(), tokens, "no tokens but the home's", func(tokens []ledger.Token) []string { return show.Tokens(tokens, time.Now()) })
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "revoke NAME",
		Short:             "Revoke a token at once",
		Example:           examples("waybill token revoke ci"),
		Args:              arguments(1, 1, "NAME"),
		ValidArgsFunction: first(a.completeTokens),
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withTokens(c, assembly.Existing, func(ctx context.Context, l *ledger.Ledger) error {
				if err := l.RevokeToken(ctx, arguments[0]); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.out, "%s is revoked\n", arguments[0])
				return err
			})
		},
	}
}

// withTokens opens the log itself: a server makes no tokens.
func (a *app) withTokens(c *cobra.Command, m assembly.Mode, do func(ctx context.Context, l *ledger.Ledger) error) error {
	if a.Flags.Server != "" {
		return fault.New(fault.Invalid, "tokens are made beside the log, not through a server").WithHint("--home or --store, where the server runs")
	}
	s, err := a.Open(c.Context(), a.Dir, m)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(c.Context(), s.Ledger)
}
