package config

import "testing"

func TestRedisURLForms(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"redis://h", "redis://h:6379", "redis://h:6379/", "redis://h/15", "redis://user:p%2Fw@h:1/0", "redis://:pw@h", "rediss://h:6379/0?skip_verify=true",
		"redis://[::1]:6379/0", "redis://h?db=3&protocol=3&client_name=x", "unix:///run/redis.sock", "unix://user:pw@/run/redis.sock?db=2"} {
		if err := CheckRedisURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"", "h:6379", "redis:h", "redis:///0", "redis://", "redis://:6379/0", "redis://h:0", "redis://h:70000", "redis://h:x", "redis://h/-1", "redis://h/1/2", "redis://h/x",
		"redis://h/99999999", "redis://h?db=x", "redis://h?max_retries=1", "redis://h?read_timeout=1s", "redis://h?%zz", "redis://h/0#x", "redis://a b", "redis://h\n", "unix://", "unix:///", "unix://run/x",
		"REDIS://h", "tcp://h:1", "embedded", "redis-sentinel://a,b/m/0", "rediss-sentinel://a/m", "redis-cluster://a,b", "rediss-cluster://a"} {
		if err := CheckRedisURL(url); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
}

func TestBaseURLForms(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"https://a.example", "http://127.0.0.1:9900", "https://[::1]:8443/v1", "https://a.example/base/path", "https://a.example/with%20space"} {
		if err := checkBaseURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"", "a.example", "//a.example", "ftp://a.example", "https://", "https:a.example", "https:///path", "https://a.example?", "https://a.example#",
		"https://u@a.example", "https://a.example/", "https://a.example:0", "https://a b.example", "https://a.example/\x7f", "https://a.example/%zz"} {
		if err := checkBaseURL(url); err == nil {
			t.Errorf("%q is accepted", url)
		}
	}
}

func TestListenForms(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":8080", "127.0.0.1:0", "[::1]:8080", "localhost:65535"} {
		if err := checkListen(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
	for _, addr := range []string{"", "8080", "127.0.0.1", "::1:8080", "h:http", "h:65536", "h:-1"} {
		if err := checkListen(addr); err == nil {
			t.Errorf("%q is accepted", addr)
		}
	}
}
