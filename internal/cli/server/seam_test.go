package server

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/token"
)

// serverRuns holds the commands that query the log, with the least that they need.
func serverRuns() clitest.Runs[*accessLog] {
	return clitest.Runs[*accessLog]{
		"status": func(ctx context.Context, f *accessLog, o *clitest.Output) error {
			return runStatus(ctx, statusOptions{Log: f, Out: o.Printer})
		},
		"token list": func(ctx context.Context, f *accessLog, o *clitest.Output) error {
			return runListTokens(ctx, listTokensOptions{Tokens: f, Out: o.Printer, Now: clitest.Noon})
		},
		"token create": func(ctx context.Context, f *accessLog, o *clitest.Output) error {
			return runCreateToken(ctx, createTokenOptions{Tokens: f, Out: o.Printer, Now: clitest.Noon})
		},
		"token revoke": func(ctx context.Context, f *accessLog, o *clitest.Output) error {
			return runRevokeToken(ctx, revokeTokenOptions{Tokens: f, Out: o.Printer})
		},
	}
}

func TestStatusAndTokensReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	serverRuns().WantErrors(t, func() *accessLog { return &accessLog{Log: clitest.Log{Err: clitest.ErrAway}} },
		func(f *accessLog) []string { return f.Calls })
}

func TestEmptyListsOfTokens(t *testing.T) {
	t.Parallel()
	serverRuns().WantEmpty(t, func() *accessLog { return &accessLog{} }, map[string]string{
		"token list": "no tokens but the home's",
	})
}

func TestCompletionWordsOfTokens(t *testing.T) {
	t.Parallel()
	f := &accessLog{tokens: []token.Token{{Name: "ci"}}}
	clitest.WantWords(t, map[string]clitest.Words{
		"tokens": {Of: func() ([]string, error) { return tokenNames(t.Context(), f, clitest.Noon()) }, Want: []string{"ci\tgood"}},
	})
}
