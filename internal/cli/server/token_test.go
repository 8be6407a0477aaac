package server

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/token"
)

func TestCreateTokenStoresTheHashOfWhatItPrints(t *testing.T) {
	t.Parallel()
	f, o := &accessLog{}, clitest.NewOutput(clitest.AsText)
	if err := runCreateToken(t.Context(), createTokenOptions{Tokens: f, Token: token.Token{Name: "ci"}, Out: o.Printer,
		Now: clitest.Noon}); err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(o.Printed.String())
	if !strings.HasPrefix(secret, "wb_") || len(secret) != 3+64 || f.tokens[0].Hash != sha256.Sum256([]byte(secret)) {
		t.Errorf("printed %q for the hash %x", secret, f.tokens[0].Hash)
	}
	if err := runCreateToken(t.Context(), createTokenOptions{Tokens: f, Token: token.Token{Name: "cd"}, Out: o.Printer,
		Now: clitest.Noon}); err != nil || f.tokens[0].Hash == f.tokens[1].Hash {
		t.Errorf("%v, two tokens have one secret", err)
	}
}

func TestATokenThatIsNotStoredIsNotPrinted(t *testing.T) {
	t.Parallel()
	f, o := &accessLog{Log: clitest.Log{Err: fault.New(fault.Conflict, "the token ci exists")}}, clitest.NewOutput(clitest.AsJSON)
	clitest.WantFault(t, runCreateToken(t.Context(),
		createTokenOptions{Tokens: f, Token: token.Token{Name: "ci"}, Out: o.Printer, Now: clitest.Noon}), fault.Conflict, "exists", "")
	o.Want(t, "", "")
}

func TestNewTokenChecksWhatItIsGiven(t *testing.T) {
	t.Parallel()
	token, err := newToken("ci.deploys-2", []string{"execute", "define"}, "90d", clitest.Noon())
	if err != nil || !token.ExpiresAt.Equal(clitest.Noon().Add(90*24*time.Hour)) || token.Name != "ci.deploys-2" || len(token.Scopes) != 2 {
		t.Errorf("%+v, %v", token, err)
	}
	if token, err := newToken("ci", []string{"read"}, "", clitest.Noon()); err != nil || !token.ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", token, err)
	}
	for _, c := range []struct {
		name, expires string
		scopes        []string
		text, hint    string
	}{
		{"no spaces", "", []string{"read"}, `the name "no spaces"`, ""},
		{"", "", []string{"read"}, `the name ""`, ""},
		{"ci", "", nil, "what may the token do?", "--scope read, execute, operate, define, approve, report, worker"},
		{"ci", "", []string{"exec"}, `"exec" is not a scope`, "--scope read, execute, operate, define, approve, report, worker"},
		{"ci", "", []string{"defien"}, `"defien" is not a scope`, "--scope define"},
		{"ci", "soon", []string{"read"}, "--expires soon: want a duration", ""},
		{"ci", "-3d", []string{"read"}, "--expires -3d: want a duration", ""},
	} {
		_, err := newToken(c.name, c.scopes, c.expires, clitest.Noon())
		clitest.WantFault(t, err, fault.Invalid, c.text, c.hint)
	}
}

func TestRevokeToken(t *testing.T) {
	t.Parallel()
	f, o := &accessLog{}, clitest.NewOutput(clitest.AsText)
	if err := runRevokeToken(t.Context(), revokeTokenOptions{Tokens: f, Name: "ci", Out: o.Printer}); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "RevokeToken ci")
	o.Want(t, "ci is revoked\n", "")
}
