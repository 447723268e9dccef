#!/usr/bin/env python3
"""When schedules are due around the days on which clocks change, calculated minute by minute.

Prints a line per case, "zone|schedule|from|time,time,...", in seconds since 1970. It shares nothing with src/base
but the database of time zones: every minute of two days is asked for its local time, and each field is looked up
in a set.
"""
import datetime
import zoneinfo

ZONES = """Africa/Cairo Africa/Casablanca America/Havana America/Los_Angeles America/New_York America/Nuuk America/Santiago
America/Sao_Paulo America/St_Johns Antarctica/Troll Asia/Beirut Asia/Gaza Asia/Jerusalem Asia/Kathmandu Asia/Kolkata
Atlantic/Azores Australia/Adelaide Australia/Lord_Howe Australia/Sydney Europe/Berlin Europe/Dublin Europe/Istanbul
Europe/London Pacific/Apia Pacific/Auckland Pacific/Chatham Pacific/Norfolk UTC""".split()
SCHEDULES = ["*/15 * * * *", "30 2 * * *", "0 0 * * *", "30 1 * * sun", "0 3 29 3,10 *", "15 2 1-7 * 0", "45 23 * * mon-fri", "0 */2 * * *"]
YEARS = (2026, 2050)  # in the files, and beyond them by their rules
NAMES = {name: number for number, name in enumerate("sun mon tue wed thu fri sat".split())}
UTC = datetime.timezone.utc
MINUTE = datetime.timedelta(minutes=1)


def numbers(text, low, high):
    found = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = low, high
        else:
            first, _, last = span.partition("-")
            first = NAMES.get(first) if first in NAMES else int(first)
            last = first if not last else NAMES[last] if last in NAMES else int(last)
        found.update(range(first, last + 1, int(step or 1)))
    return found


def fields(schedule):
    minute, hour, day, month, weekday = schedule.split()
    return (numbers(minute, 0, 59), numbers(hour, 0, 23), numbers(day, 1, 31), numbers(month, 1, 12), numbers(weekday, 0, 6),
            "*" in (day, weekday))


def due(wanted, local):
    minutes, hours, days, months, weekdays, both = wanted
    if local.minute not in minutes or local.hour not in hours or local.month not in months:
        return False
    fits = local.day in days, local.isoweekday() % 7 in weekdays
    return all(fits) if both else any(fits)


def changes(zone, year):
    """The hours in which the offset changes; or some day, where it never does."""
    at, found = datetime.datetime(year, 1, 1, tzinfo=UTC), []
    while at.year == year:
        then = at + datetime.timedelta(hours=1)
        if at.astimezone(zone).utcoffset() != then.astimezone(zone).utcoffset():
            found.append(at)
        at = then
    return found or [datetime.datetime(year, 3, 29, tzinfo=UTC)]


def main():
    for name in ZONES:
        zone = zoneinfo.ZoneInfo(name)
        for year in YEARS:
            for change in changes(zone, year):
                begin = change - datetime.timedelta(hours=24)
                minutes = [begin + MINUTE * i for i in range(1, 48 * 60)]
                locals_ = [minute.astimezone(zone) for minute in minutes]
                for schedule in SCHEDULES:
                    wanted = fields(schedule)
                    times = [int(minute.timestamp()) for minute, local in zip(minutes, locals_) if due(wanted, local)]
                    print(f"{name}|{schedule}|{int(begin.timestamp())}|{','.join(map(str, times))}")


if __name__ == "__main__":
    main()
