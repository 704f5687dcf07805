package prompts

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"net"
	"slices"

	"hclbench/load"
)

// A picture is an image as a request has it, a JSON string with a data URI, in pieces that other
// requests may have too.
type picture = net.Buffers

// pictureHole is where a picture goes in a request's body, as JSON has it. No text marshals to it but this.
const (
	pictureMark = "\x00picture"
	pictureHole = `"\u0000picture"`
)

// appendPictureHole appends a part of a message's content, with a comma before it.
func appendPictureHole(b []byte) []byte {
	return append(append(append(b, `,{"type":"image_url","image_url":{"url":`...), pictureHole...), "}}"...)
}

// illustrated is a body with its pictures in their holes. Nothing of a picture is copied.
func illustrated(body []byte, pictures []picture) net.Buffers {
	var pieces net.Buffers
	for _, p := range pictures {
		before, after, ok := bytes.Cut(body, []byte(pictureHole))
		if !ok {
			break
		}
		pieces = append(append(pieces, before), p...)
		body = after
	}
	return append(pieces, body)
}

// randomImages are words and images of noise: vLLM's random-mm. The images of each size are made
// once, a few of them, and every request has a copy that is another image to whoever decodes it.
func randomImages(ctx context.Context, job load.Job, _ int) (*Set, error) {
	d := job.Workload.Dataset
	all := make([]noises, len(d.ImageSizes))
	for i, size := range d.ImageSizes {
		var err error
		if all[i], err = newNoises(ctx, size, Random(Seed(job), forImages, uint64(i)), poolBytes/len(all)); err != nil {
			return nil, err
		}
	}
	return &Set{form: load.Messages, rows: func(use uint64) maker {
		return illustratedPrompts{newRandomPrompts(job, use), d.ImagesEach(), all}
	}}, nil
}

type illustratedPrompts struct {
	text  randomPrompts
	each  load.Span // images of a request
	sizes []noises
}

func (p illustratedPrompts) append(b []byte, i int) ([]byte, ask) {
	b, a := p.text.append(append(b, `[{"role":"user","content":[{"type":"text","text":`...), i)
	b = append(b, '}')
	r := Random(p.text.seed^scramble(p.text.use), forImages, uint64(i))
	for range length(p.each, r) {
		size := p.pick(r.Float64())
		a.images = append(a.images, size.all[r.IntN(len(size.all))].copy(r.Uint64()))
		b = appendPictureHole(b)
	}
	return append(b, "]}]"...), a
}

// pick is the size at a place between 0 and 1 of all shares.
func (p illustratedPrompts) pick(at float64) noises {
	sum := 0.0
	for _, s := range p.sizes {
		sum += s.Share
	}
	at *= sum
	for _, s := range p.sizes {
		if at -= s.Share; at < 0 {
			return s
		}
	}
	return p.sizes[len(p.sizes)-1]
}

// What is kept of made images: so many of a size, and so many bytes of all, but one of each size.
const (
	poolImages = 8
	poolBytes  = 64 << 20
)

// imageQuality is that of Pillow, and so of vLLM's random-mm, where nothing is said. Both halve the
// resolution of colours, too.
const imageQuality = 75

// noises are images of one size.
type noises struct {
	load.ImageSize
	all []noise
}

func newNoises(ctx context.Context, size load.ImageSize, r *rand.Rand, most int) (n noises, err error) {
	n.ImageSize = size
	for taken := 0; len(n.all) < poolImages && (taken == 0 || taken+taken/len(n.all) <= most); {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		one, err := newNoise(size, r)
		if err != nil {
			return n, fmt.Errorf("make an image of %v: %w", size, err)
		}
		n.all = append(n.all, one)
		taken += len(one.rest)
	}
	return n, nil
}

// noise is an image of random pixels, as JPEG. The numbers by which its luminance was divided
// stand near its beginning, one for each of 64 frequencies. A copy has some of them greater by one:
// 2⁶⁴ images, of which each costs the making of some hundred bytes, and the rest is the same.
type noise struct {
	head  []byte // of the file, to the end of those numbers
	table int    // where they begin
	rest  []byte // of the file, in base64, and the quote behind
}

const tableSize = 64

func newNoise(size load.ImageSize, r *rand.Rand) (n noise, err error) {
	pixels := image.NewRGBA(image.Rect(0, 0, size.Width, size.Height))
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(r.Uint32())
	}
	rand.NewChaCha8(seed).Read(pixels.Pix)
	var file bytes.Buffer
	if err := jpeg.Encode(&file, pixels, &jpeg.Options{Quality: imageQuality}); err != nil {
		return n, err
	}
	b := file.Bytes()
	if n.table, err = luminanceTable(b); err != nil {
		return n, err
	}
	head := (n.table + tableSize + 2) / 3 * 3 // base64 makes four characters of three bytes
	n.head = slices.Clone(b[:head])
	n.rest = append(base64.StdEncoding.AppendEncode(nil, b[head:]), '"')
	return n, nil
}

// luminanceTable is where in a JPEG the first quantisation table begins: behind the start of image
// (FFD8) and the marker FFDB with its length and the table's number and precision (ITU T.81, B.2.4.1).
func luminanceTable(b []byte) (at int, err error) {
	at = bytes.Index(b, []byte{0xff, 0xdb}) + 5
	if at < 5 || at+tableSize > len(b) || b[at-1] != 0 || slices.Max(b[at:at+tableSize]) == 0xff {
		return 0, errors.New("the JPEG has no table of 64 small numbers. This is a bug in hcl")
	}
	return at, nil
}

// copy is the image with a number of its own.
func (n noise) copy(id uint64) picture {
	head := slices.Clone(n.head)
	for i := range tableSize {
		head[n.table+i] += byte(id >> i & 1)
	}
	b := []byte(`"data:image/jpeg;base64,`)
	return picture{base64.StdEncoding.AppendEncode(b, head), n.rest}
}
