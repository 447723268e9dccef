#!/usr/bin/env python3
"""tools/walls: this tree keeps every rule, and a tree that breaks one is refused with its file and line."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def walls(root):
    done = subprocess.run([ROOT / "tools/walls", "--root", root], text=True, capture_output=True)
    return done.returncode, done.stdout + done.stderr


class WallsTest(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.root = pathlib.Path(work.name)
        for module in ("base", "json", "net", "store", "redis", "kube", "kinds/kaos", "kinds/holt", "cli"):
            self.file(f"src/{module}/README.md", "# What it is")
        self.file("src/base/result.h", "#pragma once")
        self.file("src/net/asio.h", "#pragma once", "", "// Private to `net`.", "#include <boost/asio/post.hpp>")

    def file(self, name, *lines):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def assertPasses(self, name, *lines):
        self.file(name, *lines)
        self.assertEqual(walls(self.root), (0, ""))

    def assertRefused(self, where, what):
        code, said = walls(self.root)
        self.assertEqual((code, said.count("\n")), (1, 1), said)
        self.assertTrue(said.startswith(f"{where}: "), said)
        self.assertIn(what, said)

    def assertBreach(self, name, line, what):
        self.file(name, "// A file.", line)
        self.assertRefused(f"{name}:2", what)

    def test_this_tree(self):
        self.assertEqual(walls(ROOT), (0, ""))

    def test_good_tree(self):
        self.file("src/base/format.h", "#include <fmt/format.h>")
        self.file("src/json/parse.cc", '#include "json/parse.h"', '#include "base/result.h"', "#include <vector>",
                  "#include <boost/json/basic_parser.hpp>")
        self.file("src/net/loop.cc", '#include "net/asio.h"', "#include <unistd.h>", "#include <sys/socket.h>")
        self.file("src/net/loop_test.cc", "#include <gtest/gtest.h>", "#include <regex>", "#include <openssl/ssl.h>",
                  '#include "net/testing/server.h"')
        self.file("src/net/testing/server.h", "#include <gmock/gmock.h>")
        self.file("src/cli/main.cc", '#include "kinds/kaos/kinds.h"', "#include <CLI/App.hpp>")
        self.file("apps/cadre/main.cc", '#include "cli/main.h"')
        self.file("bench/json.cc", "#include <benchmark/benchmark.h>", "#include <simdjson/simdjson.h>")
        self.file("test/e2e/support.h", "#pragma once")
        self.assertPasses("test/e2e/web_test.cc", '#include "support.h"', '#include "kube/client.h"',
                          "#include <iostream>")

    def test_higher_module(self):
        self.assertBreach("src/json/parse.cc", '#include "net/loop.h"', "json may not include net/loop.h")

    def test_neighbour(self):
        self.assertBreach("src/redis/redis.cc", '#include "store/store.h"', "redis may not include")

    def test_neighbouring_kinds(self):
        self.assertBreach("src/kinds/kaos/agent.cc", '#include "kinds/holt/kinds.h"', "kinds/kaos may not include")

    def test_tests_keep_the_order_too(self):
        self.assertBreach("src/json/parse_test.cc", '#include "net/loop.h"', "json may not include net/loop.h")

    def test_path_that_is_not_from_src(self):
        self.assertBreach("src/json/parse.cc", '#include "parse.h"', "write it from src/")

    def test_library_of_another_module(self):
        self.assertBreach("src/kube/client.cc", "#include <openssl/ssl.h>", "only net includes")

    def test_library_of_another_module_in_quotes(self):
        self.assertBreach("test/e2e/web_test.cc", '#include "yaml-cpp/yaml.h"', "only json includes")

    def test_library_in_apps(self):
        self.assertBreach("apps/cadre/main.cc", "#include <CLI/App.hpp>", "only cli includes")

    def test_unknown_library(self):
        self.assertBreach("src/net/loop.cc", "#include <uv/uv.h>", "belongs to no module")

    def test_gtest_in_the_product(self):
        self.assertBreach("src/net/loop.cc", "#include <gtest/gtest_prod.h>", "for tests")

    def test_iostream_and_regex(self):
        self.assertBreach("src/net/loop.cc", "#include <iostream>", "nowhere")
        (self.root / "src/net/loop.cc").unlink()
        self.assertBreach("apps/cadre/main.cc", "  #  include <regex>", "nowhere")

    def test_library_in_a_public_header(self):
        self.assertBreach("src/net/loop.h", "#include <boost/asio/io_context.hpp>", "shows no third-party type")

    def test_fmt_only_through_its_header(self):
        self.assertBreach("src/base/log.h", "#include <fmt/format.h>", "shows no third-party type")

    def test_private_header_in_a_public_one(self):
        self.assertBreach("src/net/loop.h", '#include "net/asio.h"', "which is private")

    def test_private_header_of_another_module(self):
        self.assertBreach("src/kube/client.cc", '#include "net/asio.h"', "private to net")

    def test_test_support_in_the_product(self):
        self.assertBreach("src/kube/client.cc", '#include "net/testing/server.h"', "is for tests")

    def test_detour(self):
        self.assertBreach("src/kube/client.cc", '#include "kube/../cli/x.h"', "has a detour in it")
        self.assertBreach("src/kube/client.cc", '#include "../cli/x.h"', "has a detour in it")
        self.assertBreach("src/kube/client.cc", '#include "kube/./x.h"', "has a detour in it")
        self.assertBreach("src/kube/client.cc", "#include <sys/../cli/x.h>", "has a detour in it")
        self.assertBreach("src/kube/client.cc", "#include <net/if//../x.h>", "an include names its header")

    def test_disguise(self):
        for line in ('/* */ #include "cli/x.h"', '#/**/include/**/"cli/x.h"', '%: include "cli/x.h"',
                     '#include\\\n"cli/x.h"', '#inc\\\nlude "cli/x.h"', '#include_next "cli/x.h"',
                     '/* \" */ #include "cli/x.h" // "', '#import "cli/x.h"'):
            with self.subTest(line):
                self.assertBreach("src/kube/client.cc", line, "kube may not include cli/x.h")
        self.assertBreach("src/kube/client.cc", "#include HEADER", "an include names its header")

    def test_line_after_a_comment(self):
        self.file("src/kube/client.cc", "/* one", " two */ int i; // a \\", "comment", 'auto s = "/*";',
                  '#include "cli/x.h"')
        self.assertRefused("src/kube/client.cc:5", "kube may not include")

    def test_what_is_no_include(self):
        self.assertPasses("src/kube/client.cc", '// #include "cli/x.h"', "/*", '#include "cli/x.h"', "*/",
                          "// continued \\", '#include "cli/x.h"', 'auto s = R"(', '#include "cli/x.h"', ')";')

    def test_other_names_of_sources(self):
        for suffix in (".hpp", ".cpp", ".ipp", ".c", ".cxx", ".hh"):
            with self.subTest(suffix):
                self.file(f"src/kube/x{suffix}", '#include "cli/x.h"')
                self.assertRefused(f"src/kube/x{suffix}", "sources end in .h or .cc")
                (self.root / f"src/kube/x{suffix}").unlink()
        self.assertBreach("src/kube/client.cc", '#include "kube/table.txt"', "only files that end in .h")
        self.assertBreach("src/kube/client.cc", '#include "net/loop.cc"', "only files that end in .h")

    def test_generated_tables(self):
        self.file("src/kube/types.inc", "constexpr int kTypes[] = {1};")
        self.assertPasses("src/kube/types.cc", '#include "kube/types.inc"')
        self.assertBreach("src/cli/get.cc", '#include "kube/types.inc"', "only files that end in .h")
        (self.root / "src/cli/get.cc").unlink()
        self.assertBreach("src/kube/types.inc", '#include "cli/x.h"', "kube may not include cli/x.h")

    def test_library_without_a_folder(self):
        for header in ("zlib.h", "curl.h", "nghttp2.hpp"):
            with self.subTest(header):
                self.assertBreach("src/kube/client.cc", f"#include <{header}>", "belongs to no module")
        self.assertBreach("src/kube/client.cc", "#include <sqlite3.h>", "only store includes")
        self.assertBreach("src/kube/client.cc", "#include <zstd.h>", "only json includes")
        (self.root / "src/kube/client.cc").unlink()
        self.assertBreach("test/e2e/web_test.cc", '#include "zlib.h"', "belongs to no module")

    def test_file_outside_of_modules(self):
        for name in ("src/x.cc", "src/x.h", "src/kinds/x.h"):
            with self.subTest(name):
                self.file(name, "int i;")
                self.assertRefused(f"{name}:1", "lies in no module")
                (self.root / name).unlink()

    def test_unknown_module(self):
        self.file("src/misc/README.md", "# All sorts of things")
        self.assertRefused("src/misc", "no module of this name")

    def test_no_readme(self):
        (self.root / "src/json/README.md").unlink()
        self.assertRefused("src/json", "has no README.md")

    def test_long_readme(self):
        self.assertPasses("src/json/README.md", *["line"] * 60)
        self.file("src/json/README.md", *["line"] * 61)
        self.assertRefused("src/json/README.md", "61 lines")


if __name__ == "__main__":
    unittest.main()
