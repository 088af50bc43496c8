"""lt.view: a page of a program at each stage, and what it does in a browser."""
from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import browser
import pytest

import lazyten as lt
from lazyten import nn, optim
from lazyten.codegen.optimize.candidates import estimates
from lazyten.codegen.targets.target import AVX2
from lazyten.nn import functional as F
from lazyten.seeing.collect import Passes
from lazyten.support import observers
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.passes import NAMES, Driver, Pass, always
from lazyten.testing import watch_kernels

VOID = {"meta", "link", "input", "br"}


def program_of(path: Path) -> dict[str, Any]:
    """What a page was made of: the program, with the details in their kernels."""
    parts = dict(re.findall(r'<script type="text/plain" id="(\w+)">([^<]*)</script>',
                            path.read_text("utf8")))
    made = {name: json.loads(zlib.decompress(base64.b64decode(text)))
            for name, text in parts.items()}
    program: dict[str, Any] = made["program"]
    for kernel in program["kernels"]:
        kernel["detail"] = made[f"detail{kernel['detail']}"]
    return program


class Tags(HTMLParser):
    """Raises AssertionError unless each element is closed where it has to be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(256, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a jitted training step of LeNet."""
    model = LeNet().to("cpu")
    optimizer = optim.SGD(model.parameters(), lr=0.01)

    @lt.jit
    def step(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    page = tmp_path_factory.mktemp("lenet") / "page.html"
    x, y = lt.rand(8, 1, 28, 28, device="cpu"), lt.randint(0, 10, (8,), device="cpu")
    lt.view(step, page, args=(x, y))
    return page


# ---- what is on a page ---------------------------------------------------------------------------

def test_a_page_has_every_kernel_of_what_tensors_would_run(device: str, tmp_path: Path) -> None:
    a = lt.rand(16, 16, device=device).realize()
    b = (a @ a).relu()
    c = b @ a + 1
    told = lt.explain(c)
    with watch_kernels() as nothing:
        lt.view(c, tmp_path / "page.html")
    assert len(nothing) == 0
    program = program_of(tmp_path / "page.html")
    names = [k["name"] for k in program["kernels"]]
    assert names == re.findall(r"^\d+: (\S+)", told, re.MULTILINE) != []
    for kernel in program["kernels"]:
        assert all(s["reason"] in told for s in kernel["stores"])
        detail = kernel["detail"]
        outer = [p["name"] for p in detail["passes"] if p["within"] is None]
        assert outer == [name for name in NAMES if name in outer]
        if device == "cpu":
            assert detail["passes"][-1]["text"].endswith(detail["source"].strip("\n"))
            assert kernel["name"] in detail["assembly"]
            assert [kernel["decisions"], kernel["cycles"]] == detail["candidates"][0]
    assert {p["name"] for p in program["plans"][0]["passes"]} >= {"store", "fuse", "launch"}


def test_lines_operations_and_kernels_belong_together(tmp_path: Path) -> None:
    a = lt.rand(36, 36, device="cpu").realize()  # of its own: an equal graph has the first's lines
    b = (a @ a).tanh()  # line 1
    c = b @ a  # line 2
    lt.view([c], tmp_path / "page.html")
    program = program_of(tmp_path / "page.html")
    source, = program["files"]
    texts = dict(source["lines"])
    own = [[texts[place[1]].strip() for place, _ in k["lines"]] for k in program["kernels"]]
    assert own == [["b = (a @ a).tanh()  # line 1"], ["c = b @ a  # line 2"]]
    nodes = program["plans"][0]["nodes"]
    ops = [[nodes[v]["op"] for v in k["values"]] for k in program["kernels"]]
    assert all("REDUCE" in names and "BUFFER" not in names for names in ops)
    first, second = (set(k["values"]) for k in program["kernels"])
    assert {nodes[v]["op"] for v in first & second} <= {"RESHAPE", "EXPAND", "PERMUTE"}  # views
    assert {s for v in second for s in nodes[v]["src"]} & first  # it reads what the first stores
    assert program["plans"][0]["memory"] == [[5184, 5184, 5184], [5184, 10368, 5184]]
    shares = [sum(share for _, share in k["lines"]) for k in program["kernels"]]
    assert shares == pytest.approx([1, 1])


def test_a_function_is_called_once_and_its_kernels_are_timed(device: str, tmp_path: Path) -> None:
    calls: list[float] = []

    def step(x: lt.Tensor, scale: float = 1.0) -> dict[str, lt.Tensor]:
        calls.append(scale)
        return {"y": (x * scale).exp().sum()}

    x = lt.rand(7, 5, device=device)
    with watch_kernels() as kernels:
        lt.view(step, tmp_path / "page.html", args=[x], kwargs={"scale": 2.0})
    assert calls == [2.0]
    program = program_of(tmp_path / "page.html")
    last = kernels.schedules[-1][1].steps
    assert [k["name"] for k in program["kernels"]] == [s.kernel.name for s in last]
    assert all(len(k["us"]) == 1 and k["us"][0] > 0 for k in program["kernels"])
    assert program["title"] == "step" and program["plans"][0]["runs"] == 1
    assert observers.nobody()


@pytest.mark.slow
def test_a_jitted_training_step_is_a_small_page(lenet: Path) -> None:
    text = lenet.read_text("utf8")
    assert 100_000 < len(text) < 3_000_000
    program = program_of(lenet)
    plan, = program["plans"]
    assert len(program["kernels"]) == sum(plan["launches"]) > 15
    assert all(k["detail"]["passes"] for k in program["kernels"])
    assert len(plan["memory"]) == len(plan["launches"])
    between = max(parts[2] for parts in plan["memory"])
    assert 0 < between <= sum(nbytes for _, _, nbytes in plan["arrays"])


def test_a_page_is_well_formed_and_loads_nothing(lenet: Path, tmp_path: Path) -> None:
    lt.view(lambda: lt.ones(3) + lt.rand(3), tmp_path / "page.html")
    for page in (lenet, tmp_path / "page.html"):
        text = page.read_text("utf8")
        Tags(text)
        assert "{{" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
        assert set(re.findall(r"https?://[^\s\"'`]*", text)) == {"http://www.w3.org/2000/svg"}
        assert re.findall(r"\b(?:src|href)=\"?[^\s>]*", text) == ['href="data:,"']
        assert "url(" not in text and "@import" not in text and "fetch(" not in text
    assert "<title>&lt;lambda></title>" in text


def test_estimates_begin_with_the_decisions_of_the_kernel_itself() -> None:
    a = lt.rand(64, 64, device="cpu").realize()
    with watch_kernels() as kernels:
        (a @ a).realize()
    step, = kernels.schedules[0][1].steps
    (own, cycles), *others = estimates(step.kernel, AVX2)
    assert own.startswith("tile") and 64**3 / 16 <= cycles < 64**3
    assert others and own not in dict(others)


def test_passes_that_a_pass_has_run_belong_to_it() -> None:
    driver: Driver[int] = Driver(lambda old, new: None, str, str)
    split: Pass[int] = Pass("split", always, lambda n: n + 1)
    pack: Pass[int] = Pass("pack", always, lambda n: driver.run([split, split], n))
    with observers.told(passes := Passes()):
        driver.run([split, pack, split], 0)
    assert [(p["name"], p["within"], p["text"]) for p in passes.kept] == [
        ("split", None, "1"), ("split", "pack", "2"), ("split", "pack", "3"), ("pack", None, "3"),
        ("split", None, "4")]


@pytest.mark.parametrize(("what", "arguments", "words"), [
    (lambda: lt.ones(3).realize(), {}, "nothing is computed"),
    (lambda: 3, {}, "a function, a tensor, or tensors in lists"),
    (lambda: [lt.ones(2), "x"], {}, "a function, a tensor"),
    (list, {}, "a function, a tensor"),
    (lambda: lt.rand(3), {"args": (1,)}, "args and kwargs are a function's"),
    (lambda: abs, {"args": lt.ones(2)}, "give a tuple"),
])
def test_what_has_no_program_is_refused(what: Any, arguments: dict[str, Any], words: str,
                                        tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=words):
        lt.view(what(), tmp_path / "page.html", **arguments)
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_and_a_view_inside_of_jit_are_refused(
        tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="cannot write"):
        lt.view(lt.rand(3) + 1, tmp_path / "no" / "page.html")

    @lt.jit(fullgraph=True)
    def step(x: lt.Tensor) -> lt.Tensor:
        lt.view(x + 1, tmp_path / "page.html")
        return x

    with pytest.raises(JitError, match=r"lt\.view"):
        step(lt.ones(2))


# ---- in a browser --------------------------------------------------------------------------------

SCRIPT = """
const texts = selector => [...document.querySelectorAll(selector)].map(e => e.textContent);
const kernels = selector => [...document.querySelectorAll(".kernel" + selector)]
  .map(e => +e.dataset.kernel);
const shows = {}, used = document.querySelector(".row.used");
const over = (e, kind) => e.dispatchEvent(new MouseEvent(kind));
over(used, "mouseenter");
const hovered = {line: used.dataset.line, kernels: kernels(".hot")};
over(used, "mouseleave");
const cooled = kernels(".hot");
over(document.querySelectorAll(".kernel")[3], "mouseenter");
const back = [...document.querySelectorAll(".row.hot")].map(e => e.dataset.line);
await choose(3);
for (const name of TABS) {
  tab = name;
  await showDetail();
  shows[name] = texts("#detail pre, #detail td, #detail svg text").join("\\n").length;
}
tab = "Passes";
for (const name of ["changes", "after", "side by side"]) {
  showing = name; shownPass = 3;
  await showDetail();
  shows[name] = texts("#detail pre span").length;
}
for (const name of VIEWS.slice(1)) {
  showView(name);
  shows[name] = document.querySelectorAll("#wide g.box, #wide pre span").length;
}
showView("Kernels");
used.click();
const filtered = kernels(":not(.gone)");
used.click();
const search = async text => { $("search").value = text; await filter();
  return kernels(":not(.gone)").length; };
const found = {reduce: await search("reduce_"), pool: await search("max_pool2d"),
  code: await search("getelementptr"), nothing: await search("no such thing"),
  all: await search("")};
return {names: texts(".kernel .name"), title: document.title, hovered, cooled, back, shows,
  filtered, found};
"""


@pytest.mark.skipif(browser.found() is None, reason="no Chromium is installed to show pages in")
def test_hovering_clicking_and_searching_link_the_parts(lenet: Path, tmp_path: Path) -> None:
    got = browser.run(lenet, SCRIPT, tmp_path)
    program = program_of(lenet)
    kernels = program["kernels"]
    lines = [{f"{p[0]}:{p[1]}" for p, _ in k["lines"]} for k in kernels]
    wanted = [n for n, own in enumerate(lines) if got["hovered"]["line"] in own]
    assert got["title"] == "step" and got["names"] == [k["name"] for k in kernels]
    assert got["hovered"]["kernels"] == got["filtered"] == wanted != []
    assert got["cooled"] == [] and set(got["back"]) == lines[3]
    assert min(got["shows"].values()) > 0, got["shows"]
    assert got["shows"]["Graph"] == len(kernels)
    assert got["shows"]["Operations"] == len(program["plans"][0]["nodes"])
    assert got["shows"]["side by side"] > got["shows"]["after"] <= got["shows"]["changes"]
    found = got["found"]
    assert found["reduce"] == sum("reduce_" in json.dumps(k) for k in kernels)
    assert 0 < found["pool"] < found["code"] == found["all"] == len(kernels)
    assert found["nothing"] == 0
