package build

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
)

// rgb is a colour of the palette.
type rgb [3]uint8

// basePalette has the 16 colours that programs select by name.
var basePalette = [16]rgb{ //nolint:gochecknoglobals // a table
	{0, 0, 0}, {205, 49, 49}, {13, 188, 121}, {229, 229, 16},
	{36, 114, 200}, {188, 63, 188}, {17, 168, 205}, {229, 229, 229},
	{102, 102, 102}, {241, 76, 76}, {35, 209, 139}, {245, 245, 67},
	{59, 142, 234}, {214, 112, 214}, {41, 184, 219}, {255, 255, 255},
}

// cubeSteps has the intensities of the 216 colours after the first 16.
var cubeSteps = [6]uint8{0, 95, 135, 175, 215, 255} //nolint:gochecknoglobals // a table

// palette returns one of the 256 colours of terminals: 16 by name, a cube of 216, and 24 greys.
func palette(n int) rgb {
	switch {
	case n < 16:
		return basePalette[n]
	case n < 232:
		n -= 16
		return rgb{cubeSteps[n/36], cubeSteps[n/6%6], cubeSteps[n%6]}
	}
	grey := uint8(8 + 10*(n-232))
	return rgb{grey, grey, grey}
}

// nearest returns the number of the palette's colour nearest to c, among the cube and the greys.
func nearest(c rgb) int {
	best, least := 16, math.MaxInt
	for n := 16; n < 256; n++ {
		p, distance := palette(n), 0
		for i := range c {
			d := int(c[i]) - int(p[i])
			distance += d * d
		}
		if distance < least {
			best, least = n, distance
		}
	}
	return best
}

// luminance returns the relative luminance of a colour (WCAG 2.2).
func luminance(c rgb) float64 {
	sum := 0.0
	for i, weight := range [3]float64{0.2126, 0.7152, 0.0722} {
		v := float64(c[i]) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}

// contrast returns the contrast ratio of two colours, from 1 to 21 (WCAG 2.2).
func contrast(a, b rgb) float64 {
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// Least contrasts of text: on a background of its own, and on the page, whose background differs
// where a line is marked.
const (
	leastContrast = 4.5
	pageContrast  = 5.6
)

// readable returns a colour mixed with toward until its contrast on a background suffices.
func readable(c, background, toward rgb) rgb {
	for share := 0; share <= 100; share++ {
		var mixed rgb
		for i := range c {
			mixed[i] = uint8((int(c[i])*(100-share) + int(toward[i])*share) / 100)
		}
		if contrast(mixed, background) >= pageContrast {
			return mixed
		}
	}
	return toward
}

// The backgrounds of a log by day and by night, as in waybill.css.
var (
	dayCard   = rgb{255, 255, 255}    //nolint:gochecknoglobals // a constant
	nightCard = rgb{0x1c, 0x22, 0x26} //nolint:gochecknoglobals // a constant
	black     = rgb{0, 0, 0}          //nolint:gochecknoglobals // a constant
	white     = rgb{255, 255, 255}    //nolint:gochecknoglobals // a constant
)

func (c rgb) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// ColourSheet is the style sheet of pages that show logs.
const ColourSheet = "colours.css"

// Colours returns ColourSheet: the style sheet of the classes that logLine writes: fN is colour N
// as text on the page, gN as text on a background, and bN as a background.
func Colours() string {
	var day, night strings.Builder
	for n := range 256 {
		c := palette(n)
		text := black
		if contrast(c, white) > contrast(c, black) {
			text = white
		}
		fmt.Fprintf(&day, ".f%d{color:%s}.b%d{background:%s;color:%s}\n", n, readable(c, dayCard, black), n, c, text)
		fmt.Fprintf(&night, ".f%d{color:%s}\n", n, readable(c, nightCard, white))
	}
	for n := range 256 { // after all bN, to win over them
		fmt.Fprintf(&day, ".g%d{color:%s}\n", n, palette(n))
	}
	return day.String() + "@media (prefers-color-scheme: dark) {\n" + night.String() + "}\n"
}

// pen holds the colours and marks of text.
type pen struct {
	text, back                                    int // number of a colour; -1: the page's
	bold, dim, italic, underline, struck, inverse bool
}

var plainPen = pen{text: -1, back: -1} //nolint:gochecknoglobals // a constant

// classes returns the CSS classes of text in this pen; "" for plain text.
func (p pen) classes() string {
	var list []string
	text, back := p.text, p.back
	switch {
	case p.inverse && text < 0 && back < 0:
		list = append(list, "inverse")
	case p.inverse:
		text, back = back, text
	}
	if back >= 0 {
		list = append(list, "b"+strconv.Itoa(back))
		if text >= 0 && contrast(palette(text), palette(back)) >= leastContrast {
			list = append(list, "g"+strconv.Itoa(text))
		}
	} else if text >= 0 {
		list = append(list, "f"+strconv.Itoa(text))
	}
	for _, mark := range [...]struct {
		set  bool
		name string
	}{
		{p.bold, "bold"}, {p.dim && text < 0 && back < 0 && !p.inverse, "dim"}, {p.italic, "italic"},
		{p.underline, "underline"}, {p.struck, "struck"},
	} {
		if mark.set {
			list = append(list, mark.name)
		}
	}
	return strings.Join(list, " ")
}

// apply changes the pen by the parameters of a sequence (ECMA-48, SGR).
func (p *pen) apply(parameters string) {
	codes := splitCodes(parameters)
	for i := 0; i < len(codes); i++ {
		n := codes[i]
		if n != 38 && n != 48 && n != 58 {
			p.name(n)
			continue
		}
		colour, used := extendedColour(codes[i+1:])
		i += used
		if colour >= 0 && n == 38 {
			p.text = colour
		} else if colour >= 0 && n == 48 {
			p.back = colour
		}
	}
}

// name applies a parameter that names a colour, or a mark.
func (p *pen) name(n int) {
	switch {
	case n >= 30 && n <= 37:
		p.text = n - 30
	case n >= 90 && n <= 97:
		p.text = n - 90 + 8
	case n >= 40 && n <= 47:
		p.back = n - 40
	case n >= 100 && n <= 107:
		p.back = n - 100 + 8
	default:
		p.mark(n)
	}
}

// mark applies a parameter that is not a colour.
func (p *pen) mark(n int) {
	switch n {
	case 0:
		*p = plainPen
	case 1:
		p.bold = true
	case 2:
		p.dim = true
	case 3, 23:
		p.italic = n == 3
	case 4, 21, 24:
		p.underline = n != 24
	case 7, 27:
		p.inverse = n == 7
	case 9, 29:
		p.struck = n == 9
	case 22:
		p.bold, p.dim = false, false
	case 39:
		p.text = -1
	case 49:
		p.back = -1
	}
}

// splitCodes returns the parameters of a sequence, 0 for omitted ones. 38:2::R:G:B loses its empty
// parameter.
func splitCodes(parameters string) []int {
	var codes []int
	for part := range strings.SplitSeq(parameters, ";") {
		subs := strings.Split(part, ":")
		if len(subs) == 6 && subs[1] == "2" {
			subs = append(subs[:2], subs[3:]...) // the third parameter names a colour space
		}
		if subs[0] == "4" {
			subs = subs[:1] // 4:3 is one kind of underline
		}
		for _, text := range subs {
			n, _ := strconv.Atoi(text) // "" is 0
			codes = append(codes, n)
		}
	}
	return codes
}

// extendedColour reads 5;N or 2;R;G;B. It returns the number of the colour, or -1, and the number
// of parameters read.
func extendedColour(codes []int) (colour, used int) {
	switch {
	case len(codes) >= 2 && codes[0] == 5:
		if codes[1] < 0 || codes[1] > 255 {
			return -1, 2
		}
		return codes[1], 2
	case len(codes) >= 4 && codes[0] == 2:
		var c rgb
		for i := range c {
			c[i] = uint8(min(max(codes[1+i], 0), 255))
		}
		return nearest(c), 4
	}
	return -1, len(codes)
}

// longestShown bounds the bytes of one entry on a page.
const longestShown = 4000

// logLine returns an entry's visible text as HTML, with spans for its colours. cut is the number of
// bytes that are left out of a long text.
func logLine(text []byte) (line string, cut int) {
	visible := build.VisibleColours(text, build.IsColour)
	if len(visible) > longestShown {
		cut = len(visible) - longestShown
		visible = strings.ToValidUTF8(visible[:longestShown], "")
		if at := strings.LastIndexByte(visible, 0x1b); at >= 0 && !strings.Contains(visible[at:], "m") {
			visible = visible[:at]
		}
	}
	if strings.IndexByte(visible, 0x1b) < 0 {
		return html.EscapeString(visible), cut
	}
	var b strings.Builder
	now := plainPen
	for visible != "" {
		plain, rest, coloured := strings.Cut(visible, "\x1b[")
		writeSpan(&b, now, plain)
		if !coloured {
			break
		}
		var parameters string
		parameters, visible, _ = strings.Cut(rest, "m")
		now.apply(parameters)
	}
	return b.String(), cut
}

func writeSpan(b *strings.Builder, p pen, text string) {
	if text == "" {
		return
	}
	classes := p.classes()
	if classes == "" {
		b.WriteString(html.EscapeString(text))
		return
	}
	b.WriteString(`<span class="` + classes + `">` + html.EscapeString(text) + `</span>`)
}
