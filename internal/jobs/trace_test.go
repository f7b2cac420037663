package jobs

import "testing"

func TestATraceparentIsOfVersion00(t *testing.T) {
	t.Parallel()
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if err := CheckTraceparent(good); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "x", good + "-00", "01" + good[2:], "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", good[:54],
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g", " " + good, good + "\n"} {
		if CheckTraceparent(bad) == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
