package load

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ImageSize is how large a share of the images that are made is, in pixels.
type ImageSize struct {
	Width  int     `json:"width"`
	Height int     `json:"height"`
	Share  float64 `json:"share"` // above 0, in proportion to those of the other sizes
}

// The bounds of images that are made. Of noise of so many pixels JPEG makes about 60 MiB.
const (
	minSide     = 16
	maxSide     = 1<<16 - 1 // of a JPEG (ITU T.81, B.2.2)
	maxPixels   = 32 << 20
	maxSizes    = 32
	maxImages   = 255 // of a request, as vLLM's random-mm has it where nothing is said
	sizeExample = "write WIDTHxHEIGHT in pixels, such as 1280x720"
)

// ParseImageSize reads "1280x720", width first.
func ParseImageSize(text string) (s ImageSize, err error) {
	width, height, _ := strings.Cut(text, "x")
	var err1, err2 error
	s.Width, err1 = strconv.Atoi(width)
	s.Height, err2 = strconv.Atoi(height)
	if err1 != nil || err2 != nil {
		return s, fmt.Errorf("%q is not the size of an image: %s", text, sizeExample)
	}
	return s, nil
}

// ParseImageShare reads "1280x720=0.5", or a size alone, whose share is 1.
func ParseImageShare(text string) (s ImageSize, err error) {
	size, share, said := strings.Cut(text, "=")
	if s, err = ParseImageSize(strings.TrimSpace(size)); err != nil {
		return s, err
	}
	if s.Share = 1; said {
		if s.Share, err = strconv.ParseFloat(strings.TrimSpace(share), 64); err != nil {
			return s, fmt.Errorf("%q is not a size with a share: write WIDTHxHEIGHT=SHARE, such as 1280x720=0.5", text)
		}
	}
	return s, nil
}

// SortImageSizes puts sizes in an order of their own, whatever the one they were written in.
func SortImageSizes(sizes []ImageSize) {
	slices.SortFunc(sizes, func(a, b ImageSize) int { return cmp.Or(a.Width-b.Width, a.Height-b.Height) })
}

func (s ImageSize) String() string { return fmt.Sprintf("%dx%d", s.Width, s.Height) }

// ImageWords names the sizes and what share of all images each has: "256x256 0.5, 1280x720 0.5". The
// shares are rounded to 12 digits, so that sizes in the same proportion have the same words.
func (d Dataset) ImageWords() string {
	sum := 0.0
	for _, s := range d.ImageSizes {
		sum += s.Share
	}
	var parts []string
	for _, s := range d.ImageSizes {
		parts = append(parts, fmt.Sprintf("%v %.12g", s, s.Share/sum))
	}
	return strings.Join(parts, ", ")
}

// ImagesEach is how many images a request has: from [n·(1−r)] to [n·(1+r)] and no more than
// max_images, as in vLLM's random-mm.
func (d Dataset) ImagesEach() Span {
	n, r, most := float64(d.Images), 0.0, cmp.Or(d.MaxImages, maxImages)
	if d.ImagesRatio != nil {
		r = *d.ImagesRatio
	}
	return Span{int(math.Floor(n * (1 - r))), min(most, int(math.Ceil(n*(1+r))))}
}

// imaging: images can be made, and requests have as many as they may.
func (d Dataset) imaging(p *problems) {
	if d.Kind != RandomImages {
		return
	}
	p.add(len(d.ImageSizes) == 0, "dataset.image_sizes", "no image has a size: %s", sizeExample)
	p.add(len(d.ImageSizes) > maxSizes, "dataset.image_sizes", "%d sizes of images: at most %d are possible",
		len(d.ImageSizes), maxSizes)
	pixels := 0.0 // whatever the sides: their product may be more than an int holds
	for i, s := range d.ImageSizes {
		p.add(min(s.Width, s.Height) < minSide || max(s.Width, s.Height) > maxSide, "dataset.image_sizes",
			"an image of %v: a side has between %d and %d pixels", s, minSide, maxSide)
		p.add(!(s.Share > 0) || math.IsInf(s.Share, 0), "dataset.image_sizes", "images of %v have a share of %v: it is a number above 0",
			s, s.Share)
		p.add(slices.ContainsFunc(d.ImageSizes[:i], func(o ImageSize) bool { return o.Width == s.Width && o.Height == s.Height }),
			"dataset.image_sizes", "the size %v is there twice", s)
		pixels += float64(s.Width) * float64(s.Height)
	}
	p.add(pixels > maxPixels, "dataset.image_sizes", "the sizes %s are too large: together they may have %d million pixels",
		d.ImageWords(), maxPixels>>20)
	each := d.ImagesEach()
	p.add(each.Low > each.High, "dataset.max_images", "at most %d images in a request, and it has at least %d", each.High, each.Low)
}
