package sim

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"strings"
)

// imagePatch is the side of the square of pixels that is one token here, as with Qwen2-VL.
const imagePatch = 28

// heard is what messages say, as far as it counts.
type heard struct{ words, images, imageTokens int }

func (h *heard) add(o heard) {
	h.words += o.words
	h.images += o.images
	h.imageTokens += o.imageTokens
}

// content is what the content of a message says: a string, or parts with texts and images.
func content(raw json.RawMessage) (h heard, err error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil { // a tool call stands without
		h.words = len(strings.Fields(text))
		return h, nil
	}
	var parts []struct {
		Text  string `json:"text"`
		Image *struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return h, fmt.Errorf("messages: content: %w", err)
	}
	for i, p := range parts {
		h.words += len(strings.Fields(p.Text))
		if p.Image == nil {
			continue
		}
		tokens, err := imageTokens(p.Image.URL)
		if err != nil {
			return h, fmt.Errorf("messages: content: part %d: %w", i+1, err)
		}
		h.images++
		h.imageTokens += tokens
	}
	return h, nil
}

// imageTokens is the number of tokens of an image in a data URI, by its size.
func imageTokens(url string) (int, error) {
	kind, data, ok := strings.Cut(url, ";base64,")
	if !ok || !strings.HasPrefix(kind, "data:image/") {
		return 0, fmt.Errorf("image_url: it is no data URI of an image, and the simulated engine fetches nothing")
	}
	size, _, err := image.DecodeConfig(base64.NewDecoder(base64.StdEncoding, strings.NewReader(data)))
	if err != nil {
		return 0, fmt.Errorf("image_url: it is neither PNG, JPEG nor GIF: %w", err)
	}
	patches := func(side int) int { return (side + imagePatch - 1) / imagePatch }
	return patches(size.Width) * patches(size.Height), nil
}
