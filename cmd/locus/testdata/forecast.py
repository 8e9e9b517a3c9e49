async def forecast(days: int = 7):
    return days
