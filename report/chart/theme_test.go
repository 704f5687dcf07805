package chart

import (
	"fmt"
	"math"
	"testing"
)

// light is a colour, "#0073e6", as amounts of light, from 0 to 1.
func light(t *testing.T, text string) (l [3]float64) {
	t.Helper()
	var of [3]uint8
	if _, err := fmt.Sscanf(text, "#%02x%02x%02x", &of[0], &of[1], &of[2]); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for i, v := range of {
		if l[i] = float64(v) / 255; l[i] <= 0.04045 {
			l[i] /= 12.92
		} else {
			l[i] = math.Pow((l[i]+0.055)/1.055, 2.4)
		}
	}
	return l
}

// eyes are what is seen of light: by most people, and without each of the three kinds of cones
// (Machado, Oliveira and Fernandes, 2009).
var eyes = map[string][3][3]float64{
	"all":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protan": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deutan": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritan": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

func times(m [3][3]float64, l [3]float64) (out [3]float64) {
	for i := range out {
		for j := range l {
			out[i] += m[i][j] * l[j]
		}
		out[i] = min(1, max(0, out[i]))
	}
	return out
}

// lab is a colour where distances are about those that people see: CIELAB.
func lab(l [3]float64) [3]float64 {
	xyz := times([3][3]float64{{0.4339, 0.3762, 0.1899}, {0.2126, 0.7152, 0.0722}, {0.0177, 0.1095, 0.8728}}, l)
	f := func(v float64) float64 {
		if v > 0.008856 {
			return math.Cbrt(v)
		}
		return 7.787*v + 16./116
	}
	return [3]float64{116*f(xyz[1]) - 16, 500 * (f(xyz[0]) - f(xyz[1])), 200 * (f(xyz[1]) - f(xyz[2]))}
}

// TestPalette: letters in each colour can be read, and no two colours are taken for each other,
// whatever eyes see them; those that most labs need are far apart.
func TestPalette(t *testing.T) {
	for name, of := range map[Theme][]string{Light: Palette(), Dark: Night()} {
		ground := light(t, roles[paper][name])
		for i, a := range of {
			luminance := func(l [3]float64) float64 { return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2] }
			x, y := luminance(light(t, a)), luminance(ground)
			if contrast := (max(x, y) + 0.05) / (min(x, y) + 0.05); contrast < 4.5 {
				t.Errorf("theme %d: %s on its ground has a contrast of %.2f", name, a, contrast)
			}
			for j, b := range of[:i] {
				for eye, sees := range eyes {
					p, q := lab(times(sees, light(t, a))), lab(times(sees, light(t, b)))
					apart := math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
					if want := map[bool]float64{true: 28, false: 15}[i < 3]; apart < want {
						t.Errorf("theme %d: %s and %s are %.0f apart to %s eyes, want %.0f", name, a, b, apart, eye, want)
					}
					_ = j
				}
			}
		}
	}
}
