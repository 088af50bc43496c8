"""What programs call of modules beside training them."""
from __future__ import annotations

import pytest

import lazyten as lt
from lazyten import nn


def test_a_module_is_put_in_the_place_of_a_dotted_name() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    net.set_submodule("1.0", nn.Tanh())
    assert isinstance(net[1][0], nn.Tanh)
    net.set_submodule("1.1", nn.ReLU())
    assert len(net[1]) == 2
    with pytest.raises(lt.LazytenError, match="has no module '7'"):
        net.set_submodule("7.0", nn.ReLU())
    with pytest.raises(lt.LazytenError, match="has no module '2'"):
        net.set_submodule("1.2", nn.ReLU(), strict=True)
    with pytest.raises(lt.DTypeError, match=r"set_submodule\('1.0'\): int 3 is not a Module"):
        net.set_submodule("1.0", 3)


def test_what_prepares_modules_elsewhere_leaves_them_as_they_are() -> None:
    net = nn.Linear(2, 3)
    expected = net(lt.ones(2)).tolist()
    net.compile(mode="max-autotune", fullgraph=True)
    assert net.share_memory() is net is net.to_empty(device="cpu")
    assert net(lt.ones(2)).tolist() == expected
