"""Two processes, each with rows of its own, do what one does with all of them."""

import sys
import traceback
from functools import partial
from itertools import islice
from typing import Any

import pytest
import torch
from torch.optim import SGD

from tests.cases import InputWeigher, build, close, stream
from tests.cli.train.killing import child, ended
from tests.together import aligned, cases, main, normalised_alike, part, trained
from tests.trained import unchecked
from tests.tutoring import same
from tutelage.distributed.groups import SingleProcess, even_batches
from tutelage.signals import Lookahead
from tutelage.signals.products import Alignment, Automatic
from tutelage.training.tutor import Tutor
from tutelage.types import Batch

CASES = dict(cases())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two processes wrote down."""
    folder = tmp_path_factory.mktemp("together")

    def act(rank: int) -> int:
        with (folder / f"{rank}.txt").open("w") as sys.stderr, unchecked():
            try:
                main(rank, str(folder / "store"), str(folder / f"{rank}.pt"))
            except BaseException:
                traceback.print_exc()
                raise
        return 0

    # forks, as both would import torch anew
    running = [child(partial(act, rank)) for rank in range(2)]
    codes = [ended(pid, within=280) for pid in running]
    assert codes == [0, 0], [(folder / f"{rank}.txt").read_text() for rank in range(2)]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_processes_do_what_one_does(found, name) -> None:
    want = trained(CASES[name], None)
    before = trained(CASES[name], None, looks=0)["teacher"]
    assert any(not torch.equal(before[k], p) for k, p in want["teacher"].items())
    tolerance = 1e-6 if "FiniteDifference" in name else 1e-9
    for process in found:
        for whose in ("teacher", "student", "statistics"):
            if want[whose]:
                close(process[name][whose], want[whose], tolerance)
        for what in ("losses", "judged"):
            torch.testing.assert_close(process[name][what], want[what], rtol=1e-9, atol=0)


def test_both_processes_end_bit_for_bit_alike(found) -> None:
    for name in CASES:
        for whose in ("teacher", "student"):
            assert same(found[0][name][whose], found[1][name][whose]), name


def test_held_out_gradients_weigh_rows_by_the_statistics_of_all(found) -> None:
    want = aligned(None)
    for process in found:
        close(process["aligned"]["student"], want["student"], 1e-9)
    weights = torch.cat([process["aligned"]["weights"] for process in found])
    torch.testing.assert_close(weights, want["weights"], rtol=1e-9, atol=1e-12)


def test_batch_normalisation_over_processes_is_that_of_all_rows(found) -> None:
    for number, want in enumerate(normalised_alike(None)):
        here, there = (process["normalised"][number] for process in found)
        rounding = 1e-4 if want["rows"]["out"].dtype == torch.float32 else 1e-2
        rows = {k: torch.cat([here["rows"][k], there["rows"][k]]) for k in ("out", "x")}
        rows["evaluated"] = here["rows"]["evaluated"]
        wanted = {**want["rows"], "evaluated": want["rows"]["evaluated"][:5]}
        for name, x in wanted.items():
            assert rows[name].dtype == x.dtype
            close({name: rows[name].float()}, {name: x.float()}, rounding)
        for process in (here, there):
            close(process["sums"], want["sums"], rounding)
            close(process["statistics"], want["statistics"], 1e-6)


def test_batch_normalisation_is_by_the_own_rows_where_nothing_else_is_said(found) -> None:
    for process in found:
        close({"": process["by own rows"]}, {"": torch.tensor([[-1.0], [1.0]])}, 1e-5)


def test_uneven_batches_end_together_and_an_empty_one_changes_nothing(found) -> None:
    for process in found:
        assert process["ending"]["steps"] == 3
    assert same(found[0]["ending"]["student"], found[1]["ending"]["student"])
    batch = next(stream())
    student, teacher = build("relu network"), InputWeigher().double()
    optimizer, learner = SGD(student.parameters(), lr=0.1), SGD(teacher.parameters(), lr=0.1)
    tutor = Tutor(student, optimizer, teacher, learner, signal=Lookahead())
    for rows in ([0, 3], [1, 4], [2]):
        mine = Batch(batch.inputs[rows], batch.targets[rows], batch.ids[rows])
        tutor.step(mine, part(batch, 1, 0))
    close(found[0]["ending"]["student"], tutor.problem.student.state().params, 1e-12)


def test_a_process_without_any_batch_is_told_to_all(found) -> None:
    for process in found:
        assert "1 of 2 processes have no batch at all" in process["refused"][0]


def test_a_wrapper_that_sums_after_the_first_backward_pass_is_refused(found) -> None:
    for process in found:
        assert "static_graph=True) allows one backward pass a step" in process["refused"][4]


def test_one_value_in_all_processes_has_no_deviation_and_is_refused_by_all(found) -> None:
    for process in found:
        assert "more than 1 value per channel" in process["refused"][1]


def test_sync_batch_norm_over_other_processes_is_refused(found) -> None:
    for rank, process in enumerate(found):
        assert f"over processes [{rank}], but" in process["refused"][2]


def test_layers_that_other_processes_do_not_call_are_refused_by_all(found) -> None:
    for process in found:
        assert process["refused"][3].endswith("Here: many.1, few.1.")


def test_a_student_of_which_a_part_is_wrapped_is_refused(found) -> None:
    for process in found:
        assert "holds a DistributedDataParallel: wrap all of it" in process["refused"][5]


def test_running_statistics_are_those_of_one_process_a_few_rows_at_a_time_too(found) -> None:
    assert same(found[0]["statistics"], found[1]["statistics"])


@pytest.mark.parametrize("wrapper", ["ddp", "none", "fsdp"])
def test_an_overflow_in_one_process_is_left_out_by_all(found, wrapper) -> None:
    here, there = (process[f"overflow {wrapper}"] for process in found)
    assert same(here, there)
    assert here["told"] == (2.0**9, 1)
    assert all(bool(p.isfinite().all()) for p in here["student"].values())


def test_a_look_costs_one_message_more(found) -> None:
    # the wrapper's own sums are not among these
    once = {"first judging": 2}
    assert found[0]["messages"] == {"plain": 0, "looked at": 0, "judging": 1} | once


def test_one_process_has_nothing_to_tell() -> None:
    x = torch.ones(2)
    assert SingleProcess().all_reduce(x) is x
    batches = list(islice(stream(), 2))
    assert list(even_batches(batches, SingleProcess())) == batches


@pytest.mark.parametrize(
    ("product", "micro_batch", "reason"),
    [
        (Automatic(), 2, "batch normalisation is by the rows of all processes"),
        (Alignment("ghost"), None, "use Alignment\\('forward'\\)"),
    ],
)
def test_what_needs_batch_statistics_of_one_process_is_refused(
    product, micro_batch, reason
) -> None:
    student, teacher = build("batch norm"), InputWeigher().double()
    optimizer, learner = SGD(student.parameters(), lr=0.1), SGD(teacher.parameters(), lr=0.1)
    options = {"signal": Lookahead(product), "micro_batch": micro_batch}
    processes = SingleProcess(size=2, sync_batch_norm=True)
    with pytest.raises(ValueError, match=reason):
        Tutor(student, optimizer, teacher, learner, processes=processes, **options)
