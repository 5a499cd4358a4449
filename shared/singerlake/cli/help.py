"""How help is laid out: examples first, then a command's own options, last those of storage; and commands by task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

import click

_UNCUT = 1_000
_NAMED = "Streams are named by --stream; put a pattern such as 'log_*' into quotes."


class SettingOption(click.Option):
    """A setting that many commands take, which help lists in the section ``about``, behind a command's own options."""

    def __init__(self, *names: Any, about: str, **attributes: Any) -> None:
        super().__init__(*names, **attributes)
        self.about = about


class Documented(click.Command):
    """A command with ``examples`` in its help, which suggests options of its own where one is mistyped."""

    examples: Sequence[str] = ()

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Usage, examples, text and options."""
        self.format_usage(ctx, formatter)
        with formatter.section("Examples"):
            for example in self.examples:
                # It is for copying, and so on one line.
                formatter.write(f"{'':>{formatter.current_indent}}{example}\n")
        self.format_help_text(ctx, formatter)
        self.format_options(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, and in sections of their own the others."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                about = param.about if isinstance(param, SettingOption) else "Options"
                sections.setdefault(about, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; of an option that is not there, the nearest of the command's own ones is suggested. One that
        takes a single value and is given twice is refused: click would pass over the first one."""
        try:
            *_, given = self.make_parser(ctx).parse_args([*args])
            once = [each for each in given if isinstance(each, click.Option) and not _may_come_again(each)]
            if twice := next((each for each in once if once.count(each) > 1), None):
                raise click.UsageError(f"{max(twice.opts, key=len)} is given more than once", ctx=ctx)
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name
            # All commands that show first what they would do take --yes, and only those that delete this.
            if name == "--delete" and any("--yes" in each.opts for each in self.params):
                message = f"No such option {name!r}; --yes does what the command shows"
                raise click.NoSuchOption(name, message, ctx=ctx) from None
            raise click.NoSuchOption(name, possibilities=self._meant(ctx, name), ctx=ctx) from None
        except click.UsageError as error:
            if "unexpected extra argument" in error.message and any(each.name == "stream" for each in self.params):
                raise click.UsageError(f"{error.message}. {_NAMED}", ctx=ctx) from None
            raise

    def _meant(self, ctx: click.Context, name: str) -> list[str]:
        own: list[str] = []
        settings: list[str] = []
        for param in self.get_params(ctx):
            names = settings if isinstance(param, SettingOption) else own
            names += [each for each in param.opts if each.startswith("--")]
        # --dry-run is near to --role-arn: a setting is suggested only where its name was begun.
        begun = [each for each in settings if name[:5] == each[:5]]
        return get_close_matches(name, own) or get_close_matches(name, begun)


def _may_come_again(option: click.Option) -> bool:
    return option.multiple or option.is_flag or option.count


def command(short_help: str) -> Callable[[Callable[..., Any]], Documented]:
    """A command; ``short_help`` is what lists of commands say of it."""
    return click.command(cls=Documented, short_help=short_help)


def examples(*lines: str) -> Callable[[click.Command], click.Command]:
    """Give a ``Documented`` command its examples."""

    def documented(command: click.Command) -> click.Command:
        assert isinstance(command, Documented)
        command.examples = lines
        return command

    return documented


class ByTask(click.Group):
    """A group whose help lists its commands under what they are for, as ``tasks`` says."""

    command_class = Documented

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click has it, with a near name where there is no such command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self.list_commands(ctx), 1)
            near = self.synonyms.get(args[0]) or next(iter(close), None)
            if near and "Did you mean" not in error.message:
                raise click.UsageError(f"{error.message} Did you mean {near!r}?", ctx=ctx) from None
            raise

    synonyms: ClassVar[Mapping[str, str]] = {}
    """What people type who know other tools, with the command that they mean."""

    tasks: ClassVar[Mapping[str, Sequence[str]]] = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A section for each task."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        widest = max(map(len, found))
        for title, names in self.tasks.items():
            with formatter.section(title):
                rows = [
                    (f"{name:{widest}}", each.get_short_help_str(limit=_UNCUT))
                    for name in names
                    if (each := found.get(name))
                ]
                formatter.write_dl(rows)
