package server

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
)

const tokenHelp = `A token lets a person or a program change things through a server (waybill up, waybill serve
api). It is shown once, when it is made; the log keeps a hash. The home's own token, in its
file "token", may do everything. Tokens are made beside the log: --home or --store.`

func TokenCommand(a *cmdline.App) *cobra.Command {
	return cmdline.Group("token", "Make and revoke tokens for the API", tokenHelp,
		tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a))
}

// scopes returns the scopes that a token may have.
func scopes() []string {
	return []string{string(service.ScopeRead), string(service.ScopeExecute), string(service.ScopeOperate),
		string(service.ScopeDefine), string(service.ScopeApprove), string(service.ScopeReport), string(service.ScopeWorker)}
}

func tokenCreateCommand(a *cmdline.App) *cobra.Command {
	var wanted []string
	expires := ""
	c := &cobra.Command{
		Use:   "create NAME --scope SCOPE,…",
		Short: "Make a token and print it, once",
		Long: `Makes a token that may do what its scopes name. Every token may read.

  read     look, and nothing else
  execute  register revisions, start deployments, jobs and actions
  operate  retry, skip, hold, resume, cancel, roll back, snooze, replay; reject and accept
           revisions; restart services; steer lanes; freeze and thaw pipelines
  define   apply pipelines
  approve  say whether a stage that waits for approval may start
  report   say what becomes of builds of a build engine that names the token, or has its name
  worker   the same, and have a provisioner start workers

Where builds run under the account of the server, without a provisioner of another account, a build
can read the server's token. There execute and define are as good as all scopes: who may ship can
approve, in any name.`,
		Example: cmdline.Examples("waybill token create ci --scope execute,define --expires 90d",
			"waybill token create dashboard --scope read", "waybill token create jenkins --scope report"),
		Args: cmdline.Arguments(1, 1, "NAME"),
		RunE: func(c *cobra.Command, arguments []string) error {
			token, err := newToken(arguments[0], wanted, expires, time.Now())
			if err != nil {
				return err
			}
			return withTokens(a, c, assembly.Create, func(ctx context.Context, l *ledger.Ledger) error {
				return runCreateToken(ctx, createTokenOptions{Tokens: l, Token: token, Out: a.Printer(), Now: time.Now})
			})
		},
	}
	c.Flags().StringSliceVar(&wanted, "scope", nil, "what it may do (repeatable, or separated by commas): "+strings.Join(scopes(), ", "))
	c.Flags().StringVar(&expires, "expires", "", "how long it is valid, such as 90d (default: until revoked)")
	cmdline.Offer(c, "scope", scopes()...)
	return c
}

// tokenName matches the names that tokens may have.
var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,63}$`)

// newToken checks the request, and returns a token without its hash.
func newToken(name string, wanted []string, expires string, now time.Time) (token.Token, error) {
	token := token.Token{Name: name, Scopes: wanted}
	if !tokenName.MatchString(name) {
		return token, fault.New(fault.Invalid, "the name %q: letters, digits, \".\", \"_\" and \"-\" only, at most 63", name)
	}
	if len(wanted) == 0 {
		return token, fault.New(fault.Invalid, "what may the token do?").WithHint("--scope %s", strings.Join(scopes(), ", "))
	}
	for _, scope := range wanted {
		if !slices.Contains(scopes(), scope) {
			return token, fault.New(fault.Invalid, "%q is not a scope", scope).
				WithHint("%s", cmdline.NearestHint(scope, scopes(), "--scope %s", "--scope "+strings.Join(scopes(), ", ")))
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
	token.Token
	Secret string `json:"secret"`
}

type createTokenOptions struct {
	Tokens interface {
		CreateToken(context.Context, token.Token) error
	}
	Token token.Token // without its hash
	Out   show.Printer
	Now   func() time.Time
}

// runCreateToken makes a secret, stores its hash, and prints it.
func runCreateToken(ctx context.Context, o createTokenOptions) error {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret := "wb_" + hex.EncodeToString(random[:])
	o.Token.Hash, o.Token.CreatedAt = sha256.Sum256([]byte(secret)), o.Now().UTC().Truncate(time.Second)
	if err := o.Tokens.CreateToken(ctx, o.Token); err != nil {
		return err
	}
	return o.Out.Answer(createdToken{Token: o.Token, Secret: secret}, secret)
}

func tokenListCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List tokens",
		Example: cmdline.Examples("waybill token list"),
		Args:    cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return withTokens(a, c, assembly.Existing, func(ctx context.Context, l *ledger.Ledger) error {
				return runListTokens(ctx, listTokensOptions{Tokens: l, Out: a.Printer(), Now: time.Now})
			})
		},
	}
}

// tokenLister lists tokens.
type tokenLister interface {
	ListTokens(context.Context) ([]token.Token, error)
}

type listTokensOptions struct {
	Tokens tokenLister
	Out    show.Printer
	Now    func() time.Time
}

// runListTokens prints the tokens without their secrets.
func runListTokens(ctx context.Context, o listTokensOptions) error {
	tokens, err := o.Tokens.ListTokens(ctx)
	if err != nil {
		return err
	}
	return show.List(o.Out, tokens, "no tokens but the home's", func(tokens []token.Token) []string { return show.Tokens(tokens, o.Now()) })
}

func tokenRevokeCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:               "revoke NAME",
		Short:             "Revoke a token at once",
		Example:           cmdline.Examples("waybill token revoke ci"),
		Args:              cmdline.Arguments(1, 1, "NAME"),
		ValidArgsFunction: cmdline.First(completeTokens(a)),
		RunE: func(c *cobra.Command, arguments []string) error {
			return withTokens(a, c, assembly.Existing, func(ctx context.Context, l *ledger.Ledger) error {
				return runRevokeToken(ctx, revokeTokenOptions{Tokens: l, Name: arguments[0], Out: a.Printer()})
			})
		},
	}
}

type revokeTokenOptions struct {
	Tokens interface {
		RevokeToken(ctx context.Context, name string) error
	}
	Name string
	Out  show.Printer
}

// runRevokeToken revokes a token.
func runRevokeToken(ctx context.Context, o revokeTokenOptions) error {
	if err := o.Tokens.RevokeToken(ctx, o.Name); err != nil {
		return err
	}
	return o.Out.Lines(o.Name + " is revoked")
}

// withTokens opens the log itself: a server makes no tokens.
func withTokens(a *cmdline.App, c *cobra.Command, m assembly.Mode, do func(ctx context.Context, l *ledger.Ledger) error) error {
	if a.Flags.Server != "" {
		return fault.New(fault.Invalid, "tokens are made beside the log, not through a server").
			WithHint("--home or --store, where the server runs")
	}
	return a.InSession(c, a.Dir, m, func(ctx context.Context, s *assembly.Session) error { return do(ctx, s.Ledger) })
}

// completeTokens offers the names of tokens. A server does not list them.
func completeTokens(a *cmdline.App) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		if s.Kind == assembly.Remote {
			return nil, nil
		}
		return tokenNames(ctx, s.Ledger, time.Now())
	})
}

// tokenNames lists the tokens that may be revoked.
func tokenNames(ctx context.Context, tokens tokenLister, now time.Time) ([]string, error) {
	found, err := tokens.ListTokens(ctx)
	var names []string
	for _, t := range found {
		if t.RevokedAt.IsZero() {
			names = append(names, t.Name+"\t"+show.TokenState(t, now))
		}
	}
	return names, err
}
