package prompts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image/jpeg"
	"runtime"
	"strings"
	"testing"

	"hclbench/load"
)

// seen is what a request with images says.
type seen struct {
	text   string
	images []string // data URIs
}

// look reads the body of a request of one message.
func look(t *testing.T, r Request) (s seen) {
	t.Helper()
	var body struct {
		Messages []struct {
			Content []struct {
				Type  string `json:"type"`
				Text  string `json:"text"`
				Image struct {
					URL string `json:"url"`
				} `json:"image_url"`
			} `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(bytes.Join(r.Body, nil), &body); err != nil || len(body.Messages) != 1 {
		t.Fatalf("%v, %d messages", err, len(body.Messages))
	}
	for _, p := range body.Messages[0].Content {
		switch p.Type {
		case "text":
			s.text += p.Text
		case "image_url":
			s.images = append(s.images, p.Image.URL)
		}
	}
	return s
}

func imagesJob(sizes ...load.ImageSize) load.Job {
	return job(load.Workload{Requests: 400, OutputTokens: 5, Endpoint: load.Chat, Dataset: load.Dataset{Kind: load.RandomImages,
		InputTokens: 12, Images: 2, ImagesRatio: new(0.5), ImageSizes: sizes}})
}

func requestsOf(t *testing.T, j load.Job, use uint64) (all []Request) {
	t.Helper()
	set, err := Open(t.Context(), j, j.Workload.Requests)
	if err != nil {
		t.Fatal(err)
	}
	q := set.Queue(use, j.Workload.Requests)
	for s, ok := q.Next(); ok; s, ok = q.Next() {
		all = append(all, s.Request())
	}
	return all
}

// TestRandomImages: requests have as many images as asked, of the sizes and in the shares that were asked for, and
// to whoever decodes them no two are the same, neither those of the warm-up.
func TestRandomImages(t *testing.T) {
	j := imagesJob(load.ImageSize{Width: 48, Height: 32, Share: 3}, load.ImageSize{Width: 17, Height: 64, Share: 1})
	counts, sizes, known := map[int]int{}, map[int]int{}, map[string]bool{}
	for _, use := range []uint64{ForPrompt, ForWarmup} {
		for _, r := range requestsOf(t, j, use) {
			s := look(t, r)
			if n := len(strings.Fields(s.text)); n != 12 || r.Input != 12 {
				t.Fatalf("%d words, said to be %d, want 12", n, r.Input)
			}
			counts[len(s.images)]++
			for _, uri := range s.images {
				data, ok := strings.CutPrefix(uri, "data:image/jpeg;base64,")
				file, err := base64.StdEncoding.DecodeString(data)
				if !ok || err != nil {
					t.Fatalf("%.40s: %v", uri, err)
				}
				img, err := jpeg.Decode(bytes.NewReader(file))
				if err != nil {
					t.Fatal(err)
				}
				var pixels strings.Builder
				size := img.Bounds()
				for y := range size.Dy() {
					for x := range size.Dx() {
						r, _, _, _ := img.At(x, y).RGBA()
						pixels.WriteByte(byte(r >> 8))
					}
				}
				if known[pixels.String()] {
					t.Fatal("an image came twice")
				}
				known[pixels.String()] = true
				sizes[size.Dx()*1000+size.Dy()]++
			}
		}
	}
	if len(counts) != 3 || min(counts[1], counts[2], counts[3]) < 180 { // 800 / 3, and six standard errors
		t.Errorf("counts %v, want 1, 2 and 3 images a third of the time each", counts)
	}
	if n := sizes[48032] + sizes[17064]; n != len(known) || sizes[48032]*100 < n*69 || sizes[48032]*100 > n*81 {
		t.Errorf("sizes %v, want three quarters of 48x32", sizes)
	}
	again, first := requestsOf(t, j, ForPrompt), requestsOf(t, j, ForPrompt)
	for i := range again {
		if !bytes.Equal(bytes.Join(again[i].Body, nil), bytes.Join(first[i].Body, nil)) {
			t.Fatal("another run of the same seed has other images")
		}
	}
}

// TestImagesAreShared: 64 requests with images of 1 MB each take a hundredth of that beside the images.
func TestImagesAreShared(t *testing.T) {
	j := imagesJob(load.ImageSize{Width: 1440, Height: 960, Share: 1})
	j.Workload.Dataset.Images, j.Workload.Dataset.ImagesRatio = 1, nil
	set, err := Open(t.Context(), j, 0)
	if err != nil {
		t.Fatal(err)
	}
	q := set.Queue(ForPrompt, 0)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	var flying []Request
	for range 64 {
		s, _ := q.Next()
		flying = append(flying, s.Request())
	}
	sent, took := 0, int64(heap())-int64(before)
	for _, r := range flying {
		for _, piece := range r.Body {
			sent += len(piece)
		}
	}
	t.Logf("%d MB in flight take %d kB", sent/1e6, took/1000)
	if sent < 64e6 || took > int64(sent)/100 {
		t.Errorf("%d bytes in flight take %d", sent, took)
	}
	runtime.KeepAlive(set)
}
