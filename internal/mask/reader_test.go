package mask_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/waybill-dev/waybill/internal/mask"
)

func TestAReaderYieldsNoSecrets(t *testing.T) {
	t.Parallel()
	const text = "before hunter22 after hunt"
	set := mask.NewSet("hunter22")
	for name, in := range map[string]io.Reader{"at once": strings.NewReader(text),
		"bytewise": iotest.OneByteReader(strings.NewReader(text)), "with its end": iotest.DataErrReader(strings.NewReader(text))} {
		got, err := io.ReadAll(iotest.OneByteReader(set.Reader(in)))
		if err != nil || string(got) != "before *** after hunt" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	gone := errors.New("gone")
	if _, err := io.ReadAll(set.Reader(io.MultiReader(strings.NewReader(text), iotest.ErrReader(gone)))); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	var none *mask.Set
	if got, err := io.ReadAll(none.Reader(strings.NewReader(text))); err != nil || string(got) != text {
		t.Errorf("without secrets: %q, %v", got, err)
	}
}
